// The main task with authentication and TLS: from the setup code to the installed cluster, then
// accounts, roles, tokens, sessions and the audit trail. Each step builds on the previous steps.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { account, logIn, password } from './accounts.mjs';
import { openBrowser } from './browser.mjs';
import { complete, controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const pullSecret = JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } });

describe('an appliance with accounts', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let viewer;
  let cluster;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading, next, clusterId } = controls(() => page);
  const logOut = async (on, name) => {
    await account(name, on).click();
    await on.getByRole('menuitem', { name: 'Log out' }).click();
    await heading('Log in to Landfall', on).waitFor();
  };
  const openTab = async (name) => {
    await page.goto(`${site.url}/access`);
    await page.getByRole('tab', { name, exact: true }).click();
  };
  const status = (on, path, method = 'GET') =>
    on.evaluate(async ([of, by]) => (await fetch(of, { method: by })).status, [path, method]);

  before(async () => {
    site = await startSite({ accounts: true });
    browser = await openBrowser(site.url, 'access');
    page = browser.page;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('asks for the setup code', async () => {
    await page.goto(site.url);
    await heading('Set up Landfall').waitFor();
    const shown = await page.getByTestId('authority').innerText();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download ca.crt' }).click(),
    ]);
    assert.match(shown.replaceAll(/\s/g, ''), /[0-9A-F]{2}(:[0-9A-F]{2}){31}/);
    assert.equal(await readFile(await download.path(), 'utf8'), await readFile(join(site.data, 'ca.crt'), 'utf8'));
  });

  step('rejects a wrong setup code', async () => {
    await page.locator('#code').fill('AAAA-BBBB-CCCC-DDDD');
    await page.locator('#name').fill('anna');
    await page.locator('#password').fill(password);
    await button('Create the account').click();
    await page.getByTestId('login-failure').getByText('The setup code is wrong').waitFor();
  });

  step('makes the first administrator', async () => {
    await page.locator('#code').fill((await readFile(join(site.data, 'setup-code'), 'utf8')).trim());
    await button('Create the account').click();
    await account('anna', page).waitFor();
    await heading('Set up this site').waitFor();
  });

  step('logs out, and rejects a wrong password', async () => {
    await logOut(page, 'anna');
    await logIn(page, 'anna', 'wrong password');
    await page.getByTestId('login-failure').waitFor();
    await logIn(page, 'anna');
    await account('anna', page).waitFor();
  });

  step('creates a token for programs', async () => {
    await openTab('Programs');
    await page.getByRole('textbox', { name: 'Name of the new token' }).fill('tests');
    await page.getByRole('combobox', { name: 'Role of the new token' }).selectOption('admin');
    await button('Create a token').click();
    const token = await page.getByTestId('new-token').getByRole('textbox').inputValue();
    site.use(token);
    assert.ok(Array.isArray(await site.get('/v2/clusters')));
  });

  step('creates a cluster in the wizard', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    await page.getByRole('textbox', { name: 'Cluster name' }).fill('guarded');
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await page.getByRole('textbox', { name: 'Pull secret' }).fill(pullSecret);
    await next();
    await heading('Operators').waitFor();
    await next();
    await heading('Host discovery').waitFor();
    cluster = clusterId();
  });

  step('shows hosts that authenticate with the token of their image', async () => {
    const [infraEnv] = await site.get(`/v2/infra-envs?cluster_id=${cluster}`);
    site.bootHosts(infraEnv.id, 3, { speed: 200 });
    await button('Ready')
      .nth(2)
      .waitFor({ timeout: 2 * minute });
  });

  step('keeps the input when the session ends', async () => {
    await next();
    await heading('Storage').waitFor();
    await next();
    await heading('Networking').waitFor();
    const { host_networks: networks } = await site.get(`/v2/clusters/${cluster}`);
    const [net] = networks[0].cidr.split(/\.\d+\//);
    await page.getByRole('textbox', { name: /API IP/ }).fill(`${net}.200`);
    await page.context().clearCookies();
    // The next request of the page, of any kind, shows the login.
    await page.keyboard.press('Tab');
    await heading('Log in to Landfall').waitFor();
    await browser.screenshot('the-login-over-the-page');
    await page.locator('#password').fill(password);
    await button('Log in').click();
    await heading('Log in to Landfall').waitFor({ state: 'detached' });
    assert.equal(await page.getByRole('textbox', { name: /API IP/ }).inputValue(), `${net}.200`);
    await page.getByRole('textbox', { name: /Ingress IP/ }).fill(`${net}.202`);
    await page.keyboard.press('Tab');
    await page.getByRole('button', { name: 'Next', exact: true, disabled: false }).waitFor({ timeout: 2 * minute });
  });

  step('installs the cluster', async () => {
    await next();
    await heading('Review and install').waitFor();
    await page
      .getByRole('button', { name: 'Install cluster', exact: true, disabled: false })
      .click({ timeout: minute });
    await heading('Installation progress').waitFor({ timeout: minute });
    await page.getByText('The cluster is installed.').waitFor({ timeout: 3 * minute });
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download the kubeconfig' }).click(),
    ]);
    assert.match(await readFile(await download.path(), 'utf8'), /^kind: Config$/m);
  });

  step('creates an account for a viewer', async () => {
    await openTab('People');
    await page.getByRole('textbox', { name: 'Name of the new account' }).fill('vera');
    await page.getByRole('textbox', { name: 'Password of the new account' }).fill(password);
    await page.getByRole('combobox', { name: 'Role of the new account' }).selectOption('viewer');
    await button('Create an account').click();
    await page.getByRole('combobox', { name: 'Role of vera' }).waitFor();
  });

  step('shows a viewer no actions', async () => {
    viewer = await (await browser.another()).newPage();
    await viewer.goto(site.url);
    await logIn(viewer, 'vera');
    await account('vera', viewer).waitFor();
    await viewer.goto(`${site.url}/assisted-installer/clusters`);
    await viewer.getByRole('link', { name: 'guarded' }).waitFor();
    assert.equal(await viewer.getByRole('link', { name: 'Create cluster' }).count(), 0);
    assert.equal(await viewer.getByTestId('clusters').locator('tbody button').count(), 0);
    await viewer.goto(`${site.url}/assisted-installer/clusters/~new`);
    await heading('Viewers cannot create clusters', viewer).waitFor();
    for (const [path, action] of [
      ['/servers', 'Add a server'],
      ['/os-images', 'Upload an ISO'],
      ['/mirror', 'Import a file'],
      ['/mirror', 'Allow'],
      ['/mirror', 'Check the mirror'],
    ]) {
      await viewer.goto(site.url + path);
      await complete(viewer);
      assert.equal(await button(action, viewer).count(), 0, action);
    }
    await viewer.goto(`${site.url}/assisted-installer/clusters/${cluster}`);
    await viewer.getByTestId('no-credentials').waitFor();
    assert.equal(await viewer.getByRole('link', { name: 'Download the kubeconfig' }).count(), 0);
  });

  step('lets viewers and operators open every page without an error', async () => {
    const other = await site.post('/v2/clusters', {
      name: 'hidden',
      openshift_version: (await site.get(`/v2/clusters/${cluster}`)).openshift_version,
      base_dns_domain: 'site.test',
      pull_secret: pullSecret,
    });
    for (const [name, rights] of [
      ['oscar', { role: 'operator' }],
      ['lena', { role: 'operator', clusters: [cluster] }],
      ['vida', { role: 'viewer' }],
    ]) {
      const made = await site.send('POST', '/api/landfall/v1/users', { name, password, ...rights });
      assert.equal(made.status, 201, name);
      const context = await browser.another();
      const failures = [];
      context.on('response', (response) => {
        if (response.status() === 403 || response.status() >= 500) {
          failures.push(`${name}: ${String(response.status())} ${response.request().method()} ${response.url()}`);
        }
      });
      context.on('console', (message) => {
        if (/Content Security Policy|Uncaught/i.test(message.text())) {
          failures.push(`${name}: ${message.text()}`);
        }
      });
      context.on('weberror', (error) => failures.push(`${name}: ${String(error.error())}`));
      const on = await context.newPage();
      await on.goto(site.url);
      await logIn(on, name);
      await account(name, on).waitFor();
      for (const path of [
        '/',
        '/settings',
        '/assisted-installer/clusters',
        `/assisted-installer/clusters/${cluster}`,
        ...(name === 'lena' ? [] : [`/assisted-installer/clusters/${other.id}`]),
        '/networks',
        '/os-images',
        '/mirror',
        '/servers',
        '/doctor',
        '/ams',
        '/access',
        '/reference',
      ]) {
        await on.goto(site.url + path);
        await account(name, on).waitFor();
        await complete(on);
      }
      assert.deepEqual(failures, []);
      await context.close();
    }
  });

  step('refuses a viewer the operations of others', async () => {
    assert.equal(await status(viewer, `/api/assisted-install/v2/clusters/${cluster}/credentials`), 403);
    assert.equal(await status(viewer, `/api/assisted-install/v2/clusters/${cluster}`, 'DELETE'), 403);
    assert.equal(await status(viewer, '/api/landfall/v1/users'), 403);
    assert.equal(await status(viewer, '/api/landfall/v1/audit'), 403);
    assert.equal(await status(viewer, `/api/assisted-install/v2/clusters/${cluster}`), 200);
  });

  step('ends the session of the viewer', async () => {
    await openTab('Sessions and my account');
    const session = page.getByRole('list', { name: 'Sessions' }).getByRole('listitem').filter({ hasText: 'vera' });
    await button('End', session).click();
    await session.waitFor({ state: 'detached' });
    await viewer.goto(`${site.url}/mirror`);
    await heading('Log in to Landfall', viewer).waitFor();
  });

  step('lists it all in the audit trail, and verifies the trail', async () => {
    await openTab('Audit trail');
    await page.getByTestId('audit-item').filter({ hasText: 'endSession' }).first().waitFor();
    await page.getByRole('textbox', { name: 'Person or program' }).fill('vera');
    await page.getByTestId('audit-item').filter({ hasText: 'refused (403)' }).first().waitFor();
    await button('Verify').click();
    await page.getByTestId('audit-report').getByText('are unaltered').waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export' }).click(),
    ]);
    assert.match(await readFile(await download.path(), 'utf8'), /"endSession"/);
  });

  step('revokes the tokens of hosts, and names the hosts', async () => {
    await openTab('Hosts');
    await page.getByRole('button', { name: 'Revoke' }).first().click();
    await button('Revoke', page.getByRole('dialog')).click();
    await page.getByTestId('token-change').waitFor();
  });

  step('logs out', async () => {
    await logOut(page, 'anna');
    assert.equal(await status(page, '/api/landfall/v1/whoami'), 401);
  });

  step('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual(browser.foreign, []);
    assert.deepEqual(browser.errors, []);
  });
});
