import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  bodiesOf,
  canUse,
  create,
  isSupported,
  possible,
  problemsOf,
  type NewCluster,
} from '../src/clusters/newCluster';

const east: NewCluster = {
  ...{ name: 'east', domain: 'site.test', version: '4.20.8', architecture: 'x86_64', controlPlanes: 3 },
  ...{ platform: 'none', pullSecret: '', usesSitePullSecret: true, hasManifests: false, hasStaticNetworks: false },
  ...{ encrypted: [], encryption: 'tpmv2', tang: '' },
};

describe('the problems of a new cluster', () => {
  it('are none for complete inputs', () => {
    expect(problemsOf(east, [{ name: 'east', base_dns_domain: 'other.test' }])).toEqual({});
  });

  it.each([
    ['no name', { name: '' }, 'name', 'Enter a name.'],
    ['a name with a space', { name: 'a b' }, 'name', /^Use at most 54 lowercase letters/],
    ['a hyphen at the end', { name: 'a-' }, 'name', /The first and the last/],
    ['a long name', { name: 'a'.repeat(55) }, 'name', /^Use at most 54/],
    ['no domain', { domain: '' }, 'domain', 'Enter a domain.'],
    ['a domain with an empty part', { domain: 'site..test' }, 'domain', /^A domain has the form/],
    ['no pull secret', { usesSitePullSecret: false }, 'pullSecret', 'Enter a pull secret.'],
    ['a pull secret without credentials', { usesSitePullSecret: false, pullSecret: '{}' }, 'pullSecret', /"auths"/],
    ['no Tang server', { encrypted: ['masters' as const], encryption: 'tang' as const }, 'tang', /^Enter one server/],
    [
      'a Tang server without a thumbprint',
      { encrypted: ['masters' as const], encryption: 'tang' as const, tang: 'http://tang.test' },
      ...(['tang', /^Enter one server/] as const),
    ],
  ])('%s', (_name, change, field, text) => {
    const problems: Record<string, string> = problemsOf({ ...east, ...change }, []);
    expect(Object.keys(problems)).toEqual([field]);
    expect(problems[field]).toMatch(text);
  });

  it('are the names of another cluster', () => {
    expect(problemsOf(east, [{ name: 'east', base_dns_domain: 'site.test' }]).name).toMatch(/exists already/);
  });
});

describe('the requests for a new cluster', () => {
  it('leave out what the appliance chooses', () => {
    const both = { openshift_version: '4.20.8', cpu_architecture: 'x86_64' };
    expect(bodiesOf(east, undefined)).toEqual({
      cluster: { ...both, name: 'east', base_dns_domain: 'site.test', control_plane_count: 3 },
      infraEnv: { ...both, name: 'east_infra-env' },
    });
  });

  it('contain its own pull secret, static networks and Tang servers', () => {
    const { cluster, infraEnv } = bodiesOf(
      {
        ...east,
        ...{ usesSitePullSecret: false, pullSecret: ' {"auths":{}}\n', hasStaticNetworks: true },
        ...{ encrypted: ['workers', 'arbiters'], encryption: 'tang', tang: 'http://tang.test abc\n' },
      },
      { CLUSTER_MANAGED_NETWORKING: 'unsupported' },
    );
    expect(cluster).toMatchObject({
      pull_secret: '{"auths":{}}',
      user_managed_networking: true,
      disk_encryption: {
        ...{ enable_on: 'arbiters,workers', mode: 'tang' },
        tang_servers: '[{"url":"http://tang.test","thumbprint":"abc"}]',
      },
    });
    expect(infraEnv).toMatchObject({ pull_secret: '{"auths":{}}', static_network_config: [{}] });
  });

  it('encrypt all disks of a single node', () => {
    const { cluster } = bodiesOf({ ...east, controlPlanes: 1, encrypted: ['masters'] }, undefined);
    expect(cluster).toMatchObject({ disk_encryption: { enable_on: 'all', mode: 'tpmv2' } });
  });

  it('have what Oracle Cloud Infrastructure needs', () => {
    const { cluster, infraEnv } = bodiesOf({ ...east, platform: 'external', hasStaticNetworks: true }, undefined);
    const external = { platform_name: 'oci', cloud_controller_manager: 'External' };
    expect(cluster).toMatchObject({ platform: { type: 'external', external } });
    expect(infraEnv).toMatchObject({ image_type: 'minimal-iso' });
    expect(infraEnv).not.toHaveProperty('static_network_config');
  });
});

describe('the creation of a cluster', () => {
  const answers = (of: Record<string, [number, object]>) => {
    const sent: string[] = [];
    vi.stubGlobal('fetch', (url: string, { method }: { method: string }) => {
      const what = `${method} ${url.replace('/api/assisted-install/v2', '')}`;
      sent.push(what);
      const [status, body] = of[what] ?? [500, { reason: 'This is not expected.' }];
      return Promise.resolve(new Response(status === 204 ? null : JSON.stringify(body), { status }));
    });
    return sent;
  };
  const created: [number, object] = [201, { id: '1' }];
  const full: [number, object] = [507, { reason: 'The disk is full.' }];
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('includes its infra-env and the wish for manifests', async () => {
    const sent = answers({
      'POST /clusters': created,
      'POST /infra-envs': created,
      'PUT /clusters/1/ui-settings': [200, {}],
    });
    expect(await create({ ...east, hasManifests: true }, undefined)).toBe('1');
    expect(sent).toEqual(['POST /clusters', 'POST /infra-envs', 'PUT /clusters/1/ui-settings']);
  });

  it('leaves no cluster without an infra-env', async () => {
    const sent = answers({ 'POST /clusters': created, 'POST /infra-envs': full, 'DELETE /clusters/1': [204, {}] });
    await expect(create(east, undefined)).rejects.toThrow(/^The disk is full\.$/);
    expect(sent).toEqual(['POST /clusters', 'POST /infra-envs', 'DELETE /clusters/1']);
  });

  it('names a cluster that it cannot delete again', async () => {
    answers({ 'POST /clusters': created, 'POST /infra-envs': full, 'DELETE /clusters/1': full });
    await expect(create(east, undefined)).rejects.toThrow(
      'The disk is full. The incomplete cluster east could not be deleted: The disk is full. ' +
        'Delete it in the list of clusters, and try again.',
    );
  });
});

describe('the options of a new cluster', () => {
  it('are those that the version supports', () => {
    expect(isSupported({ TNA: 'tech-preview' }, 'TNA')).toBe(true);
    expect(isSupported({ TNA: 'unavailable' }, 'TNA')).toBe(false);
    expect(isSupported({}, 'TNA')).toBe(false);
    expect(isSupported(undefined, 'TNA')).toBe(true);
  });

  it('integrate a single node with Oracle Cloud Infrastructure only', () => {
    const support = { NUTANIX_INTEGRATION: 'supported', EXTERNAL_PLATFORM_OCI: 'supported' };
    expect(canUse('nutanix', 3, support)).toBe(true);
    expect(canUse('nutanix', 1, support)).toBe(false);
    expect(canUse('external', 1, support)).toBe(true);
    expect(canUse('none', 1, support)).toBe(true);
  });

  it('lose what another version or number of nodes rules out', () => {
    const chosen: NewCluster = { ...east, controlPlanes: 5, platform: 'nutanix', encrypted: ['masters', 'workers'] };
    const all = { NON_STANDARD_HA_CONTROL_PLANE: 'supported', NUTANIX_INTEGRATION: 'supported' };
    expect(possible(chosen, all)).toEqual(chosen);
    expect(possible(chosen, undefined)).toEqual(chosen);
    expect(possible(chosen, {})).toEqual({ ...chosen, controlPlanes: 3, platform: 'none' });
    const single = { ...chosen, controlPlanes: 1 };
    expect(possible(single, { ...all, SNO: 'supported' })).toEqual({
      ...single,
      platform: 'none',
      encrypted: ['masters'],
    });
    const workers = possible({ ...single, encrypted: ['workers'] }, undefined);
    expect(bodiesOf(workers, undefined).cluster).not.toHaveProperty('disk_encryption');
  });
});
