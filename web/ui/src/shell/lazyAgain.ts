import { lazy, type ComponentType } from 'react';

/** The pauses between the attempts, in milliseconds: a restart of the appliance takes seconds. */
const pauses = [1_000, 3_000];

const pause = (milliseconds: number) =>
  new Promise<void>((resume) => {
    setTimeout(resume, milliseconds);
  });

/**
 * A component that is imported when it is shown. A failed import is tried again, because React
 * keeps its error for good.
 */
export const lazyAgain = <T>(load: () => Promise<{ default: ComponentType<T> }>) =>
  lazy(async () => {
    for (const milliseconds of pauses) {
      try {
        return await load();
      } catch {
        await pause(milliseconds);
      }
    }
    return load();
  });
