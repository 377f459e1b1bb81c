/** Twice the texts of a cluster with 250 hosts: an inventory and the validations of each. */
const limit = 1_000;

/** Returns `read`, except that one of the texts that were read last is not read again. */
export const remember = <T>(read: (text: string) => T): ((text: string) => T) => {
  const results = new Map<string, T>();
  return (text) => {
    const result = results.has(text) ? (results.get(text) as T) : read(text);
    // The map has the order of the last use.
    results.delete(text);
    results.set(text, result);
    if (results.size > limit) {
      for (const [oldest] of results) {
        results.delete(oldest);
        break;
      }
    }
    return result;
  };
};
