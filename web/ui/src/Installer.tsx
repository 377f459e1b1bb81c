import { Features, UILibRoutes } from '@openshift-assisted/ui-lib/ocm';
import { useEffect } from 'react';
import { StoreRefresher, followShownCluster } from './live/store';
import { useLive } from './live/LiveProvider';
import { pageTitle, shownPage } from './live/page';
import { useLocation } from 'react-router-dom-v5-compat';

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
  const { pathname } = useLocation();
  useEffect(() => {
    const show = (name?: string) => {
      document.title = pageTitle(shownPage(pathname), name);
    };
    show();
    return followShownCluster(show);
  }, [pathname]);
  return <UILibRoutes allEnabledFeatures={Features.STANDALONE_DEPLOYMENT_ENABLED_FEATURES} />;
};

export default Installer;
