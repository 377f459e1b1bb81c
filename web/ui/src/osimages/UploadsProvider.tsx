import { createContext, useContext, useEffect, useState, useSyncExternalStore, type ReactNode } from 'react';
import { untilSession } from '../access/ending';
import { transport } from './api';
import type { UploadView } from './upload';
import { Uploads } from './uploads';

const UploadsContext = createContext<Uploads | undefined>(undefined);

/** Provides the uploads, so that they continue while the user opens other pages. */
export const UploadsProvider = ({ children }: { children: ReactNode }) => {
  const [uploads] = useState(
    () =>
      new Uploads({
        transport,
        storage: localStorage,
        now: () => performance.now(),
        date: () => Date.now(),
        untilSession,
        wait: (milliseconds, signal) =>
          new Promise((over) => {
            const timer = setTimeout(over, milliseconds);
            signal.addEventListener('abort', () => {
              clearTimeout(timer);
              over();
            });
          }),
      }),
  );
  useEffect(() => {
    const follow = ({ key, newValue }: StorageEvent) => {
      if (key !== null && newValue === null) {
        uploads.endedElsewhere(key);
      }
    };
    window.addEventListener('storage', follow);
    return () => {
      window.removeEventListener('storage', follow);
    };
  }, [uploads]);
  return <UploadsContext.Provider value={uploads}>{children}</UploadsContext.Provider>;
};

export const useUploads = (): Uploads => {
  const uploads = useContext(UploadsContext);
  if (!uploads) {
    throw new Error('useUploads is called outside of UploadsProvider.');
  }
  return uploads;
};

/** The current state of the uploads. */
export const useUploadViews = (): readonly UploadView[] => {
  const uploads = useUploads();
  return useSyncExternalStore(uploads.watch, uploads.views);
};
