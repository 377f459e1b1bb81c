import { Features, UILibRoutes } from '@openshift-assisted/ui-lib/ocm';
import { useEffect } from 'react';
import { StoreRefresher } from './live/store';
import { useLive } from './live/LiveProvider';

/** The Assisted Installer's screens, with the store behind them told what the feed says. */
const Installer = () => {
  const live = useLive();
  useEffect(() => {
    const refresher = new StoreRefresher();
    const leave = live.subscribe((change) => {
      refresher.changed(change);
    });
    return () => {
      leave();
      refresher.stop();
    };
  }, [live]);
  return <UILibRoutes allEnabledFeatures={Features.STANDALONE_DEPLOYMENT_ENABLED_FEATURES} />;
};

export default Installer;
