// The page of the mirror: dropped rules, an explained image, a proof, missing images, and the same
// findings by the doctor.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { fileLimit, startSite } from './site.mjs';

const minute = 60_000;
const rules = `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-team-0}
spec:
  imageDigestMirrors:
  - source: quay.io/team
    mirrors: [mirror.example.com:5000/team]
`;

/**
 * A proxy of a mirror that lacks the first image of a proof. It responds to a few other images only
 * until `resume` is called.
 */
const startLossyMirror = async (behind) => {
  let missing;
  let requests = 0;
  let resume;
  const going = new Promise((resolve) => {
    resume = resolve;
  });
  const server = createServer((request, response) => {
    const forward = async () => {
      if (/openshift\/release\/manifests\/sha256/.test(request.url)) {
        missing ??= request.url.split('/').at(-1);
        requests += 1;
        if (requests > 3) {
          await going;
        }
      }
      if (missing && request.url.endsWith(missing)) {
        response.writeHead(404, { 'Content-Type': 'application/json' }).end('{"errors":[{"code":"MANIFEST_UNKNOWN"}]}');
        return;
      }
      const answer = await fetch(`http://${behind}${request.url}`, {
        method: request.method,
        headers: { accept: request.headers.accept ?? '*/*' },
      });
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(request.method === 'HEAD' ? undefined : Buffer.from(await answer.arrayBuffer()));
    };
    forward().catch((error) => response.destroy(error));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${String(server.address().port)}`,
    resume,
    close: () => {
      resume();
      server.closeAllConnections();
      server.close();
    },
  };
};

/** Drops a document onto the page. */
const drop = async (page, name, text) => {
  const data = await page.evaluateHandle(
    ([file, content]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([content], file));
      return transfer;
    },
    [name, text],
  );
  await page.getByTestId('mirror').dispatchEvent('drop', { dataTransfer: data });
};

describe('the mirror', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  before(async () => {
    site = await startSite({ hosts: 1 });
    browser = await openBrowser(site.url, 'mirror');
    ({ page } = browser);
    await page.goto(`${site.url}/mirror`);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  it('shows the rules and proves the release', async () => {
    await page.getByTestId('rule').first().waitFor();
    await page.getByRole('button', { name: 'Check the mirror', exact: true }).click();
    await page.getByTestId('proof').filter({ hasText: 'The mirror holds all' }).waitFor({ timeout: minute });
    await browser.screenshot('the-mirror-holds-the-release');
  });

  it('imports dropped rules and removes them', async () => {
    await drop(page, 'idms-team.yaml', rules);
    await page.getByRole('searchbox', { name: 'Find rules' }).fill('quay.io/team');
    await page.getByTestId('rule').filter({ hasText: 'quay.io/team' }).waitFor();
    await page.getByRole('textbox', { name: 'Image to explain' }).fill('quay.io/team/app:1');
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.getByText('the image is referenced by tag').waitFor();
    await browser.screenshot('rules-dropped-onto-the-page');
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByTestId('rule').filter({ hasText: 'quay.io/team' }).waitFor({ state: 'detached' });
  });

  it('reports an unusable file', async () => {
    await drop(page, 'pod.yaml', 'kind: Pod');
    const alert = page.getByText('contains no mirror configuration');
    await alert.waitFor();
    assert.match(await alert.innerText(), /pod\.yaml/i);
  });

  it("proves a cluster's own mirror and lists missing images", async () => {
    const { rules: known } = await (await fetch(`${site.url}/api/landfall/v1/mirror`)).json();
    const lossy = await startLossyMirror(known[0].mirrors[0].location.split('/')[0]);
    try {
      const [release] = (await (await fetch(`${site.url}/api/landfall/v1/status`)).json()).releases;
      const { id } = await site.post('/v2/clusters', {
        name: 'far',
        base_dns_domain: 'site.test',
        openshift_version: release.openshift_version,
        cpu_architecture: 'x86_64',
        pull_secret: '{"auths":{"example.com":{"auth":"YTpi"}}}',
        control_plane_count: 1,
      });
      await page.reload();
      await page.getByLabel('Rules for').selectOption({ label: 'Rules for cluster far' });
      const tables = known.map(
        ({ prefix, mirrors }) =>
          `[[registry]]\nlocation = "${prefix}"\nblocked = true\n[[registry.mirror]]\n` +
          `location = "${lossy.address}/${mirrors[0].location.split('/').slice(1).join('/')}"\n`,
      );
      await drop(page, 'far.conf', tables.join('\n'));
      await page.getByTestId('import').filter({ hasText: 'far.conf, for cluster far' }).waitFor();
      await page.getByTestId('rule').filter({ hasText: lossy.address }).first().waitFor();
      await page.getByRole('button', { name: 'Check the mirror', exact: true }).click();
      await page
        .getByTestId('progress')
        .filter({ hasText: /\d of 1\d/ })
        .waitFor();
      await browser.screenshot('how-far-a-proof-is');
      lossy.resume();
      await page.getByTestId('proof').filter({ hasText: 'are not available' }).waitFor({ timeout: minute });
      await browser.screenshot('what-is-missing-and-the-lists-of-it');
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'List for the courier', exact: true }).click(),
      ]);
      const list = await readFile(await download.path(), 'utf8');
      assert.match(list, /ocp-v4\.0-art-dev@sha256:/);
      assert.match(list, new RegExp(lossy.address));

      await page.goto(`${site.url}/doctor`);
      await page.getByLabel('Cluster', { exact: true }).selectOption(id);
      await page.getByTestId('finding').filter({ hasText: 'Mirror it there.' }).waitFor({ timeout: minute });
      await browser.screenshot('the-doctor-names-the-missing-image');
    } finally {
      lossy.close();
    }
  });
});
