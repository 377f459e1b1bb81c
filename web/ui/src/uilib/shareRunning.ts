/** Returns `load`, except that calls with the same arguments share one request while it runs. */
export const shareRunning = <A extends unknown[], T>(load: (...args: A) => Promise<T>) => {
  const running = new Map<string, Promise<T>>();
  return (...args: A): Promise<T> => {
    const key = JSON.stringify(args);
    const found = running.get(key);
    if (found) {
      return found;
    }
    const started = load(...args).finally(() => running.delete(key));
    running.set(key, started);
    return started;
  };
};
