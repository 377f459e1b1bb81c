import '@patternfly/patternfly/patternfly-addons.css';
import './i18n';
import { Config, Features, UILibRoutes } from '@openshift-assisted/ui-lib/ocm';
import { useEffect, useState } from 'react';
import { StoreRefresher, followShownCluster } from './live/store';
import { useLive } from './live/LiveProvider';
import { pageTitle, shownPage } from './live/page';
import { NoCluster } from './shell/NoCluster';
import { useLocation } from 'react-router-dom-v5-compat';

// Sets the base path of the library's own links; the library has no other method for that.
Config.setRouteBasePath('/assisted-installer');

/** The Assisted Installer's screens. Notices of the feed refresh the store behind them. */
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
  // For a missing cluster, the library's page shows a spinner forever; for a deleted cluster, it
  // does not change.
  if (missingAt === key) {
    return <NoCluster />;
  }
  return <UILibRoutes allEnabledFeatures={Features.STANDALONE_DEPLOYMENT_ENABLED_FEATURES} />;
};

export default Installer;
