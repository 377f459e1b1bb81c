// The wizard's "Static IP, bridges, and bonds": the form for one host, and the code editor of the
// YAML view under the page's content security policy.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';


describe('static networks in the wizard', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading, next, clusterId } = controls(() => page);
  const field = (name) => page.getByTestId(name);
  const editor = () => page.locator('.monaco-editor').first();
  const infraEnv = async () => (await site.get(`/v2/infra-envs?cluster_id=${clusterId()}`))[0];
  const saved = async () => JSON.parse((await infraEnv()).static_network_config);
  const createCluster = async (name) => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    await page.getByRole('textbox', { name: 'Cluster name' }).fill(name);
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await page.getByRole('radio', { name: 'Static IP, bridges, and bonds' }).check();
    await next();
    await page.getByRole('radio', { name: 'Form view' }).waitFor();
  };

  before(async () => {
    site = await startSite({ hosts: 1 });
    browser = await openBrowser(site.url, 'staticip');
    ({ page } = browser);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('creates a cluster whose networks are not described yet', async () => {
    await createCluster('quay');
    const [placeholder] = await saved();
    assert.match(placeholder.network_yaml, /name: DUMMY4/);
  });

  step('describes the networks of all hosts', async () => {
    await field('dns').fill('192.0.2.53');
    await field('ipv4-machine-network-ip').fill('192.0.2.0');
    await field('ipv4-machine-network-prefix-length').fill('24');
    await field('ipv4-gateway').fill('192.0.2.1');
    await next();
    await heading('Host specific configurations').waitFor();
  });

  step('describes a host in the form', async () => {
    await field('mac-address-0').fill('52:54:00:00:aa:01');
    await field('ipv4-address-0').fill('192.0.2.10');
  });

  step('removes a further host of the form with the keyboard', async () => {
    await field('add-host').click();
    await field('mac-address-1').fill('52:54:00:00:aa:09');
    await field('ipv4-address-1').fill('192.0.2.11');
    await button('Remove Host 2').focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).press('Enter');
    await button('Remove Host 2').waitFor({ state: 'detached' });
  });

  step('saves the host of the form', async () => {
    await next();
    await heading('Operators').waitFor();
    const hosts = await saved();
    assert.equal(hosts.length, 1);
    assert.deepEqual(hosts[0].mac_interface_map, [{ mac_address: '52:54:00:00:aa:01', logical_nic_name: 'eth0' }]);
    assert.match(hosts[0].network_yaml, /ip: 192\.0\.2\.10\n/);
    assert.match(hosts[0].network_yaml, /next-hop-address: 192\.0\.2\.1\n/);
    assert.doesNotMatch(hosts[0].network_yaml, /DUMMY/);
  });

  step('opens the code editor', async () => {
    await createCluster('jetty');
    await page.getByRole('radio', { name: 'YAML view' }).check();
    await button('Start from scratch').click();
    await editor().locator('.view-line').first().waitFor();
  });

  step('colours and indents what is typed into the editor', async () => {
    const line = editor().locator('.view-line');
    await line.first().click();
    // After a colon, the editor indents the next line.
    await page.keyboard.type('interfaces:\n- name: eth0\n  type: ethernet\nstate: up');
    const word = (text) => line.locator('span').getByText(text, { exact: true }).first();
    const colour = (text) => word(text).evaluate((element) => getComputedStyle(element).color);
    assert.notEqual(await colour('interfaces'), await colour('ethernet'));
    await page.keyboard.press('Control+f');
    await page.keyboard.type('eth');
    await editor().getByText('1 of 2').waitFor();
    await page.keyboard.press('Escape');
  });

  step('types into the editor again after its text is removed', async () => {
    await editor().locator('.view-line').first().click();
    await page.keyboard.press('Control+a');
    await page.keyboard.press('Control+x');
    await page.waitForFunction(() => document.querySelector('.view-lines')?.innerText.trim() === '');
    await page.keyboard.press('Control+v');
    await editor().getByText('interfaces').first().waitFor();
  });

  step('saves the text of the editor', async () => {
    await field('mac-address-0-0').fill('52:54:00:00:aa:02');
    await field('interface-name-0-0').fill('eth0');
    await next();
    await heading('Operators').waitFor();
    assert.deepEqual(await saved(), [
      {
        mac_interface_map: [{ mac_address: '52:54:00:00:aa:02', logical_nic_name: 'eth0' }],
        network_yaml: 'interfaces:\n  - name: eth0\n    type: ethernet\n    state: up',
      },
    ]);
  });

  it('no requests to other origins, no violations of the content security policy, no errors', () => {
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});
