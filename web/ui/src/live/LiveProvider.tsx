import {
  createContext,
  useContext,
  useEffect,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from 'react';
import { suspectSessionEnd } from '../access/ending';
import { isOn } from '../notices/browser';
import { Feed, type FeedState } from './feed';

const LiveContext = createContext<Feed | undefined>(undefined);

/**
 * Provides the feed of the page. The feed is stopped while the page is hidden, unless the browser
 * shows notifications.
 */
export const LiveProvider = ({ children }: { children: ReactNode }) => {
  const [feed] = useState(() => new Feed(undefined, suspectSessionEnd));
  useEffect(() => {
    const followVisibility = () => {
      if (document.visibilityState === 'hidden' && !isOn(window)) {
        feed.stop();
      } else {
        feed.start();
      }
    };
    followVisibility();
    document.addEventListener('visibilitychange', followVisibility);
    return () => {
      document.removeEventListener('visibilitychange', followVisibility);
      feed.stop();
    };
  }, [feed]);
  return <LiveContext.Provider value={feed}>{children}</LiveContext.Provider>;
};

/** The page's feed. */
export const useLive = (): Feed => {
  const feed = useContext(LiveContext);
  if (!feed) {
    throw new Error('useLive is called outside of LiveProvider.');
  }
  return feed;
};

/** The current state of the page's feed. */
export const useFeedState = (): FeedState => {
  const feed = useLive();
  return useSyncExternalStore(feed.watch, () => feed.state);
};
