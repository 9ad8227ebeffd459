"""The index beside its peers: one trial a process, the table, the plots."""
