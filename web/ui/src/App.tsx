import { Suspense, type ComponentType, type ReactNode } from 'react';
import { Bullseye, Page, SkipToContent, Spinner } from '@patternfly/react-core';
import { BrowserRouter, Route, Routes, useLocation } from 'react-router-dom-v5-compat';
import { AccessProvider } from './access/AccessProvider';
import { WholeSite } from './access/WholeSite';
import { NeedsInternet } from './offline/NeedsInternet';
import { UploadsProvider } from './osimages/UploadsProvider';
import { Away } from './shell/Away';
import { ErrorBoundary } from './shell/ErrorBoundary';
import { Header } from './shell/Header';
import { LateFailures } from './shell/LateFailures';
import { lazyAgain } from './shell/lazyAgain';
import { NotFound } from './shell/NotFound';
import { mainId, useFocusOnNavigation } from './shell/useFocusOnNavigation';
import { LiveProvider } from './live/LiveProvider';
import { BrowserNotices } from './notices/BrowserNotices';
import { isLibraryPath, shownPage } from './live/page';

/**
 * A page that is loaded when it is shown. If its address is the one that the browser opens, it is
 * loaded at once, while the appliance is asked for the account.
 */
const pageAt = <T,>(path: RegExp, load: () => Promise<{ default: ComponentType<T> }>) => {
  if (path.test(window.location.pathname)) {
    load().catch(() => undefined); // showing the page loads it again and reports the error
  }
  return lazyAgain(load);
};

const NewClusterPage = pageAt(/^\/assisted-installer\/clusters\/~new/, () => import('./clusters/NewClusterPage'));
const ClustersPage = pageAt(/^\/assisted-installer\/clusters$/, () => import('./clusters/ClustersPage'));
const ClusterPage = pageAt(/^\/assisted-installer\/clusters\/[^~]/, () => import('./clusters/ClusterPage'));
const HomePage = pageAt(/^\/$/, () => import('./overview/HomePage'));
const SetupPage = pageAt(/^\/setup$/, () => import('./overview/SetupPage'));
const SettingsPage = pageAt(/^\/settings$/, () => import('./settings/SettingsPage'));
const OsImagesPage = pageAt(/^\/os-images$/, () => import('./osimages/OsImagesPage'));
const HostsPage = pageAt(/^\/hosts$/, () => import('./hosts/HostsPage'));
const HostPage = pageAt(/^\/hosts\/[^/]+\/[^/]+$/, () => import('./hosts/HostPage'));
const MissingPage = pageAt(/^\/hosts\/missing$/, () => import('./hosts/MissingPage'));
const DoctorPage = pageAt(/^\/doctor$/, () => import('./doctor/DoctorPage'));
const NetworksPage = pageAt(/^\/networks$/, () => import('./networks/NetworksPage'));
const MirrorPage = pageAt(/^\/mirror$/, () => import('./mirror/MirrorPage'));
const RegistryPage = pageAt(/^\/registry$/, () => import('./registry/RegistryPage'));
const SiteServicesPage = pageAt(/^\/site-services$/, () => import('./siteservices/SiteServicesPage'));
const BmcPage = pageAt(/^\/servers$/, () => import('./bmc/BmcPage'));
const HostedPage = pageAt(/^\/hosted$/, () => import('./hosted/HostedPage'));
const AmsPage = pageAt(/^\/ams$/, () => import('./ams/AmsPage'));
const AccessPage = pageAt(/^\/access$/, () => import('./access/AccessPage'));
const DocsPage = pageAt(/^\/docs/, () => import('./docs/DocsPage'));
const ReferencePage = pageAt(/^\/reference$/, () => import('./reference/ReferencePage'));

/**
 * The page: the login, then our header and banner around the Assisted Installer's screens and ours.
 * The feed of the appliance keeps it up to date.
 */
export const App = () => (
  <BrowserRouter>
    <AccessProvider>
      <LiveProvider>
        <UploadsProvider>
          <Page
            masthead={<Header />}
            banner={<Away />}
            mainContainerId={mainId}
            skipToContent={<SkipToContent href={`#${mainId}`}>Skip to content</SkipToContent>}
          >
            <Navigation />
            <BrowserNotices />
            <Boundary>
              <Suspense
                fallback={
                  <Bullseye>
                    <Spinner aria-label="Loading" />
                  </Bullseye>
                }
              >
                <Routes>
                  <Route path="/" element={<HomePage />} />
                  <Route
                    path="/setup"
                    element={
                      <WholeSite>
                        <SetupPage />
                      </WholeSite>
                    }
                  />
                  <Route
                    path="/settings"
                    element={
                      <WholeSite>
                        <SettingsPage />
                      </WholeSite>
                    }
                  />
                  <Route path="/hosts" element={<HostsPage />} />
                  <Route path="/hosts/missing" element={<MissingPage />} />
                  <Route path="/hosts/:infraEnvId/:id" element={<HostPage />} />
                  <Route path="/os-images" element={<OsImagesPage />} />
                  <Route
                    path="/doctor"
                    element={
                      <WholeSite>
                        <DoctorPage />
                      </WholeSite>
                    }
                  />
                  <Route path="/networks" element={<NetworksPage />} />
                  <Route path="/mirror" element={<MirrorPage />} />
                  <Route
                    path="/registry"
                    element={
                      <WholeSite>
                        <RegistryPage />
                      </WholeSite>
                    }
                  />
                  <Route
                    path="/site-services"
                    element={
                      <WholeSite>
                        <SiteServicesPage />
                      </WholeSite>
                    }
                  />
                  <Route
                    path="/servers"
                    element={
                      <WholeSite>
                        <BmcPage />
                      </WholeSite>
                    }
                  />
                  <Route
                    path="/hosted"
                    element={
                      <WholeSite>
                        <HostedPage />
                      </WholeSite>
                    }
                  />
                  <Route
                    path="/ams"
                    element={
                      <WholeSite>
                        <AmsPage />
                      </WholeSite>
                    }
                  />
                  <Route path="/access" element={<AccessPage />} />
                  <Route path="/reference" element={<ReferencePage />} />
                  <Route path="/docs" element={<DocsPage />} />
                  <Route path="/docs/:topic" element={<DocsPage />} />
                  <Route path="*" element={<Others />} />
                </Routes>
              </Suspense>
            </Boundary>
            <NeedsInternet />
            <LateFailures />
          </Page>
        </UploadsProvider>
      </LiveProvider>
    </AccessProvider>
  </BrowserRouter>
);

const Boundary = ({ children }: { children: ReactNode }) => (
  <ErrorBoundary pathname={useLocation().pathname}>{children}</ErrorBoundary>
);

const Navigation = () => {
  useFocusOnNavigation();
  return null;
};

/** The pages of clusters. The page of a cluster has the library's wizard. */
const Others = () => {
  const { pathname } = useLocation();
  if (!isLibraryPath(pathname)) {
    return <NotFound />;
  }
  const page = shownPage(pathname);
  switch (page.name) {
    case 'list':
      return <ClustersPage />;
    case 'new':
      return <NewClusterPage />;
    case 'cluster':
      return <ClusterPage key={page.clusterId} id={page.clusterId} />;
  }
};
