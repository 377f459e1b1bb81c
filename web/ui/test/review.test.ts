import { describe, expect, it } from 'vitest';
import type { ClusterDetails, Readiness } from '../src/clusters/api';
import { fencingOf } from '../src/clusters/fencing';
import { chosenOperators, clusterLines, hostLines, networkLines, type Line } from '../src/clusters/review';
import type { HostRow, Role } from '../src/hosts/api';

const host = (name: string, role: Role = 'auto-assign', suggested: Role = 'master'): HostRow => ({
  id: name,
  infra_env_id: 'i',
  infra_env_name: 'north',
  name,
  role,
  suggested_role: suggested,
  status: 'known',
  status_info: '',
  last_contact: '',
  registered_at: '',
});

const readiness = (details: Partial<ClusterDetails>, hosts: HostRow[] = [], isStatic = false): Readiness => ({
  details: { id: 'c', name: 'north', base_dns_domain: 'site.test', ...details },
  hosts,
  infraEnvs: [{ id: 'i', name: 'north', ...(isStatic && { static_network_config: '[]' }) }],
});

const textOf = (lines: Line[], wanted: string) => lines.find(({ term }) => term === wanted)?.text;

describe('the review of a cluster', () => {
  const nodes = (details: Partial<ClusterDetails>, hosts: HostRow[]) =>
    textOf(clusterLines(readiness(details, hosts)), 'Nodes');

  it('says how many nodes do what', () => {
    const three = [host('a'), host('b'), host('c')];
    expect(nodes({ control_plane_count: 1 }, [host('a')])).toBe(
      'A single node, which is the control plane and runs workloads.',
    );
    expect(nodes({ control_plane_count: 3 }, three)).toBe(
      '3 control-plane nodes; the control plane runs workloads too.',
    );
    expect(nodes({ control_plane_count: 3 }, [...three, host('d', 'worker')])).toBe(
      '3 control-plane nodes and a worker; the workers run workloads.',
    );
    expect(nodes({ control_plane_count: 2 }, [host('a'), host('b'), host('c', 'arbiter'), host('d')])).toBe(
      '2 control-plane nodes, an arbiter and a worker; the workers run workloads.',
    );
  });

  it('names the address of the console and leaves out what is not set', () => {
    const lines = clusterLines(readiness({}));
    expect(textOf(lines, 'Address of its console')).toBe('console-openshift-console.apps.north.site.test');
    expect(textOf(lines, 'Proxy')).toBeUndefined();
  });

  it('says which disks are encrypted, and how', () => {
    const encryption = (enable_on: string, mode: string) =>
      textOf(clusterLines(readiness({ disk_encryption: { enable_on, mode } })), 'Disk encryption');
    expect(encryption('none', 'tpmv2')).toBe('None');
    expect(encryption('masters,workers', 'tpmv2')).toBe(
      'Disks of the control plane and the workers, with the TPM of each machine.',
    );
    expect(encryption('all', 'tang')).toBe('Disks of all nodes, with Tang servers.');
  });

  it('says who balances the load', () => {
    const balancer = (details: Partial<ClusterDetails>) => textOf(networkLines(readiness(details)), 'Load balancer');
    expect(balancer({})).toBe('The cluster: its nodes take the API and ingress addresses.');
    expect(balancer({ user_managed_networking: true })).toMatch(/^Yours/);
    expect(balancer({ control_plane_count: 1, user_managed_networking: true })).toMatch(/^None/);
  });

  it('says whether the networks of the hosts are static', () => {
    expect(textOf(networkLines(readiness({}, [], true)), 'Addresses of hosts')).toBe('Static');
    expect(textOf(networkLines(readiness({})), 'Addresses of hosts')).toBe('From DHCP');
  });

  it('names the installation disk of each host', () => {
    const chosen = [{ id: 'a', installation_disk_path: '/dev/sdb' }];
    const hosts = hostLines(readiness({ hosts: chosen }, [host('a'), host('b')]));
    expect(hosts.map(({ disk }) => disk)).toEqual(['/dev/sdb', 'Not chosen yet']);
  });

  it('lists the operators that a person has chosen', () => {
    const operators = [
      { name: 'console', operator_type: 'builtin' },
      { name: 'lvm', operator_type: 'olm' },
    ];
    expect(chosenOperators({ id: 'c', name: 'north', monitored_operators: operators })).toEqual(['lvm']);
  });
});

describe('the quorum of two control-plane nodes', () => {
  const credentials = JSON.stringify({ address: 'redfish+https://192.0.2.7/redfish/v1/Systems/1', username: 'admin' });

  it('concerns no other cluster', () => {
    expect(fencingOf(readiness({ control_plane_count: 3 }, [host('a')]))).toBeUndefined();
  });

  it('needs an arbiter or the credentials of both BMCs', () => {
    const fenced = [{ id: 'a', fencing_credentials: credentials }];
    const state = fencingOf(readiness({ control_plane_count: 2, hosts: fenced }, [host('a'), host('b')]));
    expect(state?.isComplete).toBe(false);
    expect(state?.hosts.map(({ bmc }) => bmc)).toEqual(['redfish+https://192.0.2.7/redfish/v1/Systems/1', '']);
  });

  it('is complete with the credentials of both', () => {
    const fenced = ['a', 'b'].map((id) => ({ id, fencing_credentials: credentials }));
    const hosts = [host('a'), host('b'), host('c', 'worker')];
    expect(fencingOf(readiness({ control_plane_count: 2, hosts: fenced }, hosts))?.isComplete).toBe(true);
  });

  it('is complete with an arbiter', () => {
    const state = fencingOf(readiness({ control_plane_count: 2 }, [host('a'), host('b'), host('c', 'arbiter')]));
    expect(state?.title).toBe('c is the arbiter of the two control-plane nodes.');
  });
});
