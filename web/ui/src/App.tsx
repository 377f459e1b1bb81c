import { Suspense, lazy } from 'react';
import { Bullseye, Page, Spinner } from '@patternfly/react-core';
import { BrowserRouter } from 'react-router-dom-v5-compat';
import { NeedsInternet } from './offline/NeedsInternet';
import { Away } from './shell/Away';
import { Header } from './shell/Header';
import { LiveProvider } from './live/LiveProvider';

const Installer = lazy(() => import('./Installer'));

/** The page: our header and banner around the Assisted Installer's own screens, kept live by the appliance's feed. */
export const App = () => (
  <BrowserRouter>
    <LiveProvider>
      <Page masthead={<Header />} banner={<Away />}>
        <Suspense
          fallback={
            <Bullseye>
              <Spinner aria-label="Loading" />
            </Bullseye>
          }
        >
          <Installer />
        </Suspense>
        <NeedsInternet />
      </Page>
    </LiveProvider>
  </BrowserRouter>
);
