import { Suspense, lazy } from 'react';
import { Bullseye, Page, SkipToContent, Spinner } from '@patternfly/react-core';
import { BrowserRouter, Route, Routes, useLocation } from 'react-router-dom-v5-compat';
import { AccessProvider } from './access/AccessProvider';
import { WholeSite } from './access/WholeSite';
import { NeedsInternet } from './offline/NeedsInternet';
import { UploadsProvider } from './osimages/UploadsProvider';
import { Away } from './shell/Away';
import { Header } from './shell/Header';
import { NotFound } from './shell/NotFound';
import { mainId, useFocusOnNavigation } from './shell/useFocusOnNavigation';
import { LiveProvider } from './live/LiveProvider';
import { BrowserNotices } from './notices/BrowserNotices';
import { isLibraryPath, shownPage } from './live/page';

const Installer = lazy(() => import('./Installer'));
const ClustersPage = lazy(() => import('./clusters/ClustersPage'));
const ClusterPage = lazy(() => import('./clusters/ClusterPage'));
const HomePage = lazy(() => import('./overview/HomePage'));
const SetupPage = lazy(() => import('./overview/SetupPage'));
const SettingsPage = lazy(() => import('./settings/SettingsPage'));
const OsImagesPage = lazy(() => import('./osimages/OsImagesPage'));
const HostsPage = lazy(() => import('./hosts/HostsPage'));
const HostPage = lazy(() => import('./hosts/HostPage'));
const MissingPage = lazy(() => import('./hosts/MissingPage'));
const DoctorPage = lazy(() => import('./doctor/DoctorPage'));
const NetworksPage = lazy(() => import('./networks/NetworksPage'));
const MirrorPage = lazy(() => import('./mirror/MirrorPage'));
const RegistryPage = lazy(() => import('./registry/RegistryPage'));
const SiteServicesPage = lazy(() => import('./siteservices/SiteServicesPage'));
const BmcPage = lazy(() => import('./bmc/BmcPage'));
const HostedPage = lazy(() => import('./hosted/HostedPage'));
const AmsPage = lazy(() => import('./ams/AmsPage'));
const AccessPage = lazy(() => import('./access/AccessPage'));
const DocsPage = lazy(() => import('./docs/DocsPage'));
const ReferencePage = lazy(() => import('./reference/ReferencePage'));

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
            <NeedsInternet />
          </Page>
        </UploadsProvider>
      </LiveProvider>
    </AccessProvider>
  </BrowserRouter>
);

const Navigation = () => {
  useFocusOnNavigation();
  return null;
};

/** The pages below the library's paths: our clusters, and the library's wizard. */
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
      return <Installer />;
    case 'cluster':
      return <ClusterPage key={page.clusterId} id={page.clusterId} />;
  }
};
