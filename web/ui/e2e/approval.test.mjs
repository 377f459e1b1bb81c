// Approval of hosts that manifests of the Kubernetes API install.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { setUp } from './accounts.mjs';
import { openBrowser } from './browser.mjs';
import { until } from './clusters.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const secret = '{"auths":{"example.com":{"auth":"YTpi"}}}';

describe('approval of hosts', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  const step = dependentSteps(() => ({ browser, site }));
  const row = (name) => page.locator(`[data-testid="host"][data-name="${name}"]`);
  const approve = () => page.getByRole('button', { name: 'Approve', exact: true });

  before(async () => {
    site = await startSite({ accounts: true, serve: ['--kubernetes-enabled=true'] });
    browser = await openBrowser(site.url, 'approval');
    ({ page } = browser);
    await setUp(site, page, 'anna');
    const metadata = { name: 'east' };
    const install = 'agent-install.openshift.io/v1beta1';
    for (const [path, object] of [
      ['/api/v1/namespaces', { metadata }],
      ['/api/v1/namespaces/east/secrets', { metadata, stringData: { '.dockerconfigjson': secret } }],
      [
        `/apis/${install}/namespaces/east/infraenvs`,
        { apiVersion: install, kind: 'InfraEnv', metadata, spec: { pullSecretRef: metadata } },
      ],
    ]) {
      const response = await site.send('POST', path, object);
      assert.equal(response.status, 201, await response.text());
    }
    await until('the manifests have made an infra-env', async () => (await site.get('/v2/infra-envs')).length > 0);
    const [{ id }] = await site.get('/v2/infra-envs');
    site.bootHosts(id, 2);
    const [version] = Object.keys(await site.get('/v2/openshift-versions'));
    const west = { name: 'west', pull_secret: secret, openshift_version: version };
    site.bootHosts((await site.post('/v2/infra-envs', west)).id, 1, { first: 3 });
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('approves several hosts', async () => {
    await page.goto(`${site.url}/hosts`);
    for (const name of ['host-1', 'host-2']) {
      await row(name).getByText('Not approved').waitFor({ timeout: minute });
    }
    await row('host-3').waitFor({ timeout: minute });
    assert.equal(await row('host-3').getByText('Not approved').count(), 0, 'no manifests install this host');
    await page.getByRole('checkbox', { name: 'Select all hosts of this page' }).check();
    await approve().click();
    const dialog = page.getByRole('dialog');
    assert.deepEqual(await dialog.getByTestId('host-names').locator('li').allInnerTexts(), ['host-1', 'host-2']);
    await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
    await page.getByTestId('host-outcome').getByText('Approved 2 hosts.').waitFor();
  });

  step('offers no approval of approved hosts', async () => {
    for (const name of ['host-1', 'host-2']) {
      await row(name).getByText('Not approved').waitFor({ state: 'detached' });
    }
    assert.equal(await approve().count(), 0);
    const { hosts } = await (await site.send('GET', '/api/landfall/v1/hosts')).json();
    const approvals = Object.fromEntries(hosts.map(({ name, approved }) => [name, approved]));
    assert.deepEqual(approvals, { 'host-1': true, 'host-2': true, 'host-3': undefined });
  });
});
