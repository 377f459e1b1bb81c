import { Config, Features, UILibRoutes } from '@openshift-assisted/ui-lib/ocm';
import { useEffect, useState } from 'react';
import { StoreRefresher, followShownCluster } from './live/store';
import { useLive } from './live/LiveProvider';
import { pageTitle, shownPage } from './live/page';
import { NoCluster } from './shell/NoCluster';
import { useLocation } from 'react-router-dom-v5-compat';

// Where the library's own links lead to; it is told in no other way.
Config.setRouteBasePath('/assisted-installer');

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
  const { pathname, key } = useLocation();
  const [missingAt, setMissingAt] = useState<string>();
  useEffect(() => {
    const show = (name?: string) => {
      document.title = pageTitle(shownPage(pathname), name);
    };
    show();
    return followShownCluster(({ name, isMissing }) => {
      show(name);
      if (isMissing) {
        setMissingAt(key);
      }
    });
  }, [pathname, key]);
  // The library's page of a cluster that there is not turns for ever, and one of a cluster that was deleted stays.
  if (missingAt === key) {
    return <NoCluster />;
  }
  return <UILibRoutes allEnabledFeatures={Features.STANDALONE_DEPLOYMENT_ENABLED_FEATURES} />;
};

export default Installer;
