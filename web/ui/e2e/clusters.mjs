// Clusters before their installation, with simulated hosts, made through the API.

import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';

const pullSecret = JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } });
const prepared = 120_000;

/** Waits until this holds. */
export const until = async (description, holds) => {
  const deadline = Date.now() + prepared;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `not within two minutes: ${description}`);
    await wait(200);
  }
};

/**
 * Returns functions that make clusters of the demo's release. The numbers of the hosts begin with
 * `first`: hosts of the same number are the same machine.
 */
export const prepareClusters = async (site) => {
  await until('the demo has its cluster', async () => (await site.get('/v2/clusters')).length > 0);
  const [{ openshift_version: version }] = await site.get('/v2/clusters');
  let addresses = 200;

  const create = async (name, { first = 1, hosts = 3, faults = '', settings = {}, image = {} } = {}) => {
    const both = { name, pull_secret: pullSecret };
    const own = { base_dns_domain: 'site.test', openshift_version: version, ...settings };
    const { id } = await site.post('/v2/clusters', { ...both, ...own });
    const infraEnv = await site.post('/v2/infra-envs', { ...both, cluster_id: id, ...image });
    if (hosts > 0) {
      site.bootHosts(infraEnv.id, hosts, { first, faults });
    }
    return { id, infraEnvId: infraEnv.id, read: () => site.get(`/v2/clusters/${id}`) };
  };

  /** Makes a cluster that can be installed. */
  const ready = async (name, options) => {
    const cluster = await create(name, options);
    const known = async () => (await cluster.read()).host_networks ?? [];
    await until(`the hosts of ${name} have a network`, async () => (await known())[0]?.host_ids?.length === 3);
    const [start] = (await known())[0].cidr.split(/\.\d+\//);
    const next = () => [{ ip: `${start}.${String(addresses++)}` }];
    const patch = { api_vips: next(), ingress_vips: next() };
    await site.send('PATCH', `/api/assisted-install/v2/clusters/${cluster.id}`, patch);
    await until(`${name} is ready`, async () => (await cluster.read()).status === 'ready');
    return cluster;
  };

  return { create, ready };
};
