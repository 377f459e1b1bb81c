// A newcomer's walk: an appliance with an empty configuration and everything else in the browser,
// from the setup code to an installed cluster. Each step builds on the previous steps.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setUp } from './accounts.mjs';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMNLzvCDn0ZCCzjZIwoSxDbM+SGmDcAlXYBWMS3pmNOl newcomer';

describe("a newcomer's walk", { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading, next, clusterId } = controls(() => page);
  const line = (id) => page.getByTestId(`step-${id}`);
  const setting = (id) => page.getByTestId(`setting-${id}`);
  const open = (name) => page.getByRole('link', { name, exact: true }).click();
  const home = () => page.getByRole('link', { name: 'Landfall: home' }).click();
  const isIn = (id, state) =>
    page.locator(`[data-testid=step-${id}][data-state=${state}]`).waitFor({ timeout: minute });

  before(async () => {
    site = await startSite({ accounts: true, isNew: true });
    browser = await openBrowser(site.url, 'newcomer');
    page = browser.page;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('shows the first administrator what is missing', async () => {
    await setUp(site, page, 'anna');
    await heading('Set up this site').waitFor();
    assert.equal(await page.title(), 'Set up this site · Landfall');
    await isIn('release', 'missing');
    await isIn('pull-secret', 'missing');
    await line('mirror').getByText('The site has no mirror rules').waitFor();
  });

  step('imports the rules of the mirror', async () => {
    await open('Import mirror rules');
    await page.locator('input[type=file]').setInputFiles(site.around.rules);
    await page.getByTestId('rule').filter({ hasText: 'ocp-release' }).waitFor();
  });

  step('sets the pull secret and the SSH key', async () => {
    await home();
    await open('Set the pull secret');
    const secret = page.getByRole('textbox', { name: 'Pull secret' });
    await secret.fill('{"auths":');
    await page.getByText('A pull secret is JSON.').waitFor();
    await secret.fill('{"auths":{"mirror.site.test:5000":{"auth":"dXNlcjpwYXNz"}}}');
    await setting('pull-secret').getByRole('button', { name: 'Save' }).click();
    await page.getByText('Set, with credentials for mirror.site.test:5000.').waitFor();
    assert.ok(!(await page.content()).includes('dXNlcjpwYXNz'));
    await page.getByRole('textbox', { name: 'Public key' }).fill(key);
    await setting('ssh-key').getByRole('button', { name: 'Save' }).click();
    await setting('ssh-key').getByRole('button', { name: 'Save', disabled: true }).waitFor();
  });

  step('adds a release by its pull spec', async () => {
    await home();
    await isIn('pull-secret', 'done');
    await isIn('ssh-key', 'done');
    await open('Add a release');
    await page.getByRole('textbox', { name: 'Add a release' }).fill(site.around.release);
    await button('Add the release').click();
    await page.getByTestId('release').filter({ hasText: site.around.version }).waitFor({ timeout: minute });
  });

  step('explains in the wizard that the live ISO is missing', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    await page.getByText(/cannot be installed yet/).waitFor();
    await open('Open the live ISOs');
    await page.waitForURL('**/os-images');
  });

  step('uploads the live ISO', async () => {
    await button('Upload an ISO').click();
    await page.locator('[role=dialog] input[type=file]').setInputFiles(site.around.iso);
    const version = page.locator('#upload-iso-version');
    if (await version.isEnabled()) {
      await version.fill(site.around.version.split('.').slice(0, 2).join('.'));
    }
    await button('Upload').click();
    await page.getByTestId('os-image').getByText('Ready').waitFor({ timeout: minute });
    await home();
    await isIn('os-image', 'done');
    await isIn('release', 'done');
  });

  step('creates a cluster with the pull secret of the site', async () => {
    await open('Clusters');
    await page.getByRole('link', { name: 'Create cluster' }).click();
    await page.getByRole('textbox', { name: 'Cluster name' }).fill('first');
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await page.getByText("The site's pull secret is used.").waitFor();
    await next();
    await heading('Operators').waitFor();
    await next();
    await heading('Host discovery').waitFor();
  });

  step('offers an image with the SSH key of the site', async () => {
    const [infraEnv] = await site.get(`/v2/infra-envs?cluster_id=${clusterId()}`);
    assert.equal(infraEnv.ssh_authorized_key, key);
    site.bootHosts(infraEnv.id, 3, { speed: 200 });
    await button('Ready')
      .nth(2)
      .waitFor({ timeout: 2 * minute });
  });

  step('installs the cluster', async () => {
    await next();
    await heading('Storage').waitFor();
    await next();
    await heading('Networking').waitFor();
    const { host_networks: networks } = await site.get(`/v2/clusters/${clusterId()}`);
    const [net] = networks[0].cidr.split(/\.\d+\//);
    await page.getByRole('textbox', { name: /API IP/ }).fill(`${net}.200`);
    await page.getByRole('textbox', { name: /Ingress IP/ }).fill(`${net}.202`);
    await page.keyboard.press('Tab');
    await page.getByRole('button', { name: 'Next', exact: true, disabled: false }).click({ timeout: 2 * minute });
    await heading('Review and install').waitFor();
    await page
      .getByRole('button', { name: 'Install cluster', exact: true, disabled: false })
      .click({ timeout: minute });
    await heading('Installation progress').waitFor({ timeout: minute });
    await page.getByText('The cluster is installed.').waitFor({ timeout: 3 * minute });
  });

  step('shows the overview of the site', async () => {
    await home();
    await heading('Overview').waitFor();
    await page.getByTestId('overview-clusters').getByText('Installed').waitFor();
    await page.getByTestId('overview-hosts').getByText('3 hosts').waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), button('Export as CSV').click()]);
    assert.equal(download.suggestedFilename(), 'landfall-overview.csv');
  });

  step('reports an unknown address', async () => {
    await page.goto(`${site.url}/nothing`);
    await heading('Page not found').waitFor();
    assert.equal(await page.title(), 'Page not found · Landfall');
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
