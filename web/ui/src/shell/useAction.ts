import { useRef, useState } from 'react';

/**
 * The action of a button or a form, which runs once at a time: a second click during its request
 * does nothing.
 */
export const useAction = (): { isRunning: boolean; run: (action: () => Promise<unknown>) => Promise<void> } => {
  const [isRunning, setRunning] = useState(false);
  // The state is that of the last rendering, which is too old for the second click of a pair.
  const runs = useRef(false);
  const run = async (action: () => Promise<unknown>) => {
    if (runs.current) {
      return;
    }
    runs.current = true;
    setRunning(true);
    try {
      await action();
    } finally {
      runs.current = false;
      setRunning(false);
    }
  };
  return { isRunning, run };
};
