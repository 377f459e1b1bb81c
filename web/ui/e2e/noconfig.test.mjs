// An appliance without configuration, as after a first start: each page shows what is missing.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

describe('an appliance without configuration', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const step = dependentSteps(() => ({ site, browser }));

  before(async () => {
    site = await startSite({ serve: [] });
    browser = await openBrowser(site.url, 'noconfig');
    page = browser.page;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('reports in the wizard that there is no release', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters`);
    await page.getByRole('link', { name: 'Create cluster' }).click();
    await page.getByText(/This appliance has no release to install/).waitFor();
    await page.getByRole('button', { name: 'Check again' }).waitFor();
  });

  step('reports in the doctor that there is no release', async () => {
    await page.getByRole('link', { name: 'Doctor', exact: true }).click();
    await page.getByRole('row', { name: /Failed.*releases.*none, so neither a cluster nor an infra-env/ }).waitFor();
  });

  step('says what lets hosts reach the appliance', async () => {
    await page.goto(`${site.url}/setup`);
    await page.getByRole('link', { name: 'Show what to change', exact: true }).click();
    const advice = page.getByTestId('local-listener');
    await advice.getByText(/Set listen to 0\.0\.0\.0:\d+ in the configuration file .* and restart/).waitFor();
    await advice.getByText(/Set auth to local as well/).waitFor();
  });

  step('names what images and clusters need', async () => {
    await page.getByRole('link', { name: 'OS images', exact: true }).click();
    await page.getByText('A cluster or an infra-env also needs a release of the same version').waitFor();
  });

  step('shows no mirror rules and no release', async () => {
    await page.getByRole('link', { name: 'Mirror', exact: true }).click();
    await page.getByText('No mirror rules: each image is pulled from the registry in its name.').waitFor();
    await page.getByText(/This appliance has no release to check/).waitFor();
  });

  step('shows no login to OpenShift Cluster Manager', async () => {
    await page.getByRole('link', { name: 'OCM', exact: true }).click();
    await page.getByTestId('ams-state').getByText('Not logged in').waitFor();
  });

  step('does not say that there is no cluster while the appliance does not respond', async () => {
    await page.getByRole('link', { name: 'Clusters', exact: true }).click();
    await page.getByTestId('no-clusters').waitFor();
    await site.stop();
    await page.getByText('The appliance does not respond').first().waitFor();
    await page.getByTestId('no-clusters').waitFor({ state: 'detached' });
    await site.start();
    await page.getByTestId('no-clusters').waitFor();
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
