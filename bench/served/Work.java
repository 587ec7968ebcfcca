import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Counts words, sorts and hashes in some threads, for a number of rounds. */
public class Work {
    static List<String> words(int count, int seed) {
        List<String> made = new ArrayList<>();
        long state = seed;
        for (int number = 0; number < count; number++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            made.add("word" + ((state >>> 33) % 5000));
        }
        return made;
    }

    static Map<String, Integer> counts(List<String> words) {
        Map<String, Integer> counts = new HashMap<>();
        for (String word : words) {
            counts.merge(word, 1, Integer::sum);
        }
        return counts;
    }

    static int digest(List<String> sorted) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (String word : sorted) {
            digest.update(word.getBytes());
        }
        return digest.digest()[0];
    }

    static void work(int rounds, int seed) {
        try {
            for (int round = 0; round < rounds; round++) {
                List<String> sorted = new ArrayList<>(counts(words(50000, seed + round)).keySet());
                sorted.sort(null);
                digest(sorted);
            }
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        Thread[] threads = new Thread[3];
        for (int number = 0; number < threads.length; number++) {
            int seed = number;
            threads[number] = new Thread(() -> work(rounds, seed), "worker-" + number);
            threads[number].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
