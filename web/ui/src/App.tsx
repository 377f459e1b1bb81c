import { Suspense, lazy } from 'react';
import { Bullseye, Page, Spinner } from '@patternfly/react-core';
import { BrowserRouter, Route, Routes } from 'react-router-dom-v5-compat';
import { AccessProvider } from './access/AccessProvider';
import { WholeSite } from './access/WholeSite';
import { NeedsInternet } from './offline/NeedsInternet';
import { UploadsProvider } from './osimages/UploadsProvider';
import { Away } from './shell/Away';
import { Header } from './shell/Header';
import { LiveProvider } from './live/LiveProvider';

const Installer = lazy(() => import('./Installer'));
const OsImagesPage = lazy(() => import('./osimages/OsImagesPage'));
const DoctorPage = lazy(() => import('./doctor/DoctorPage'));
const NetworksPage = lazy(() => import('./networks/NetworksPage'));
const MirrorPage = lazy(() => import('./mirror/MirrorPage'));
const BmcPage = lazy(() => import('./bmc/BmcPage'));
const AmsPage = lazy(() => import('./ams/AmsPage'));
const AccessPage = lazy(() => import('./access/AccessPage'));
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
          <Page masthead={<Header />} banner={<Away />}>
            <Suspense
              fallback={
                <Bullseye>
                  <Spinner aria-label="Loading" />
                </Bullseye>
              }
            >
              <Routes>
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
                  path="/servers"
                  element={
                    <WholeSite>
                      <BmcPage />
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
                <Route path="*" element={<Installer />} />
              </Routes>
            </Suspense>
            <NeedsInternet />
          </Page>
        </UploadsProvider>
      </LiveProvider>
    </AccessProvider>
  </BrowserRouter>
);
