import { createContext, useContext, useEffect, useState, useSyncExternalStore, type ReactNode } from 'react';
import { untilSession } from '../access/ending';
import { transport } from './api';
import type { UploadView } from './upload';
import { Uploads, type TabMessage } from './uploads';

const UploadsContext = createContext<Uploads | undefined>(undefined);

/** The interval of the questions to the other tabs, in milliseconds. */
const askInterval = 10_000;

/** Provides the uploads, so that they continue while the user opens other pages. */
export const UploadsProvider = ({ children }: { children: ReactNode }) => {
  const [channel] = useState(() => new BroadcastChannel('landfall-uploads'));
  const [uploads] = useState(
    () =>
      new Uploads({
        tell: (message) => {
          channel.postMessage(message);
        },
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
    const hear = ({ data }: MessageEvent<TabMessage>) => {
      uploads.hear(data);
    };
    window.addEventListener('storage', follow);
    window.addEventListener('pagehide', uploads.tellLeaving);
    window.addEventListener('pageshow', uploads.tellAll); // the browser shows a left page again
    channel.addEventListener('message', hear);
    uploads.ask();
    const asking = setInterval(uploads.ask, askInterval);
    return () => {
      window.removeEventListener('storage', follow);
      window.removeEventListener('pagehide', uploads.tellLeaving);
      window.removeEventListener('pageshow', uploads.tellAll);
      channel.removeEventListener('message', hear);
      clearInterval(asking);
    };
  }, [uploads, channel]);
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
