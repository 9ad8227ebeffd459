// Prints each verdict: java -cp 'libs/*' Subscriber.java kafka:9092 [topic], with JDK 17 or newer.
// libs contains kafka-clients, lz4-java (which Maven and Gradle add to it) and jackson-databind.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

class Subscriber {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "group.id", "java",
                "auto.offset.reset", "earliest", "isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments.length > 1 ? arguments[1] : "verdicts"));
            while (true) {
                for (var message : consumer.poll(Duration.ofSeconds(1))) {
                    var verdict = new ObjectMapper().readTree(message.value());
                    System.out.println(verdict.get("verdict").asText() + " " + verdict.path("url").asText());
                }
            }
        }
    }
}
