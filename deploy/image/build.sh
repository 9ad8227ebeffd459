#!/usr/bin/env bash
# Build deploy/Dockerfile without a Docker daemon or an image registry, with buildah and
# debootstrap, as root:
#   deploy/image/build.sh FOLDER     builds the image neardup in a container storage in FOLDER
# A second run builds only what has changed. Debian with its own Python replaces python:3.12-slim.
# During the build, it trusts the certificate authorities that this machine trusts.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(realpath -m "$1")
mkdir -p "$work"
command -v buildah debootstrap >/dev/null || {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends buildah debootstrap
}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
buildah=(buildah --root "$work/storage" --runroot "$work/run")

if [ ! -e "$work/base" ]; then
  debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates trixie "$work/rootfs"
  ln -sf python3 "$work/rootfs/usr/bin/python"
  rm -rf "$work"/rootfs/usr/share/{doc,man,locale,info} "$work"/rootfs/var/{cache/apt,lib/apt/lists}/*
  container=$("${buildah[@]}" from scratch)
  "${buildah[@]}" copy "$container" "$work/rootfs" / >/dev/null
  "${buildah[@]}" config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$container"
  "${buildah[@]}" commit --quiet --rm "$container" docker.io/library/python:3.12-slim >"$work/base"
  rm -rf "$work/rootfs"
fi
"${buildah[@]}" build --pull=never --network host --layers \
  --volume /etc/ssl/certs:/etc/ssl/certs:ro --file deploy/Dockerfile --tag neardup .
