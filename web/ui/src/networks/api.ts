import { getJSON, request } from '../shell/request';
import { byName } from '../shell/rows';

/** A host's network in the format of the API. */
export type HostConfig = {
  network_yaml: string;
  mac_interface_map: { mac_address: string; logical_nic_name: string }[];
};

export type InfraEnv = { id: string; name: string; cluster_id?: string; static_network_config?: string };

export type Preview = {
  way: 'keyfiles' | 'script' | 'policy';
  reason?: string;
  hosts: HostPreview[];
};

export type HostPreview = {
  /**
   * The network as it is stored, for an account that may not read secrets; undefined if it is the
   * sent one.
   */
  network_yaml?: string;
  fault?: { field?: string; line?: number; message: string };
  warnings?: string[];
  addresses: { interface: string; address: string }[];
  files: { name: string; content: string }[];
};

const root = '/api/assisted-install/v2/infra-envs';

export const listInfraEnvs = async (signal?: AbortSignal): Promise<InfraEnv[]> =>
  byName(await getJSON<InfraEnv[]>(root, signal));

const hostsOf = ({ static_network_config: text }: InfraEnv): HostConfig[] =>
  text ? (JSON.parse(text) as HostConfig[]) : [];

export const readHosts = async (id: string, signal?: AbortSignal): Promise<HostConfig[]> =>
  hostsOf(await getJSON<InfraEnv>(`${root}/${id}`, signal));

/** Saves the networks, and returns them as the appliance has stored them. */
export const saveHosts = async (id: string, hosts: HostConfig[]): Promise<HostConfig[]> => {
  const response = await request('PATCH', `${root}/${id}`, { json: { static_network_config: hosts } });
  return hostsOf((await response.json()) as InfraEnv);
};

/** Whether two lists describe the same networks. The order of the keys differs between senders. */
export const areSame = (a: HostConfig[], b: HostConfig[]): boolean => textOf(a) === textOf(b);

const textOf = (hosts: HostConfig[]): string =>
  JSON.stringify(
    hosts.map(({ network_yaml: yaml, mac_interface_map: nics }) => [
      yaml,
      nics.map(({ mac_address: mac, logical_nic_name: name }) => [mac, name]),
    ]),
  );

/** The settings that each host would get; nothing is stored. */
export const previewHosts = async (id: string, hosts: HostConfig[], signal?: AbortSignal): Promise<Preview> =>
  (await (
    await request('POST', `/api/landfall/v1/infra-envs/${id}/static-network/preview`, {
      json: { static_network_config: hosts },
      signal,
    })
  ).json()) as Preview;

/** The networks as an account reads them that may not read secrets. */
export const withoutSecrets = async (id: string, hosts: HostConfig[]): Promise<HostConfig[]> => {
  const preview = await previewHosts(id, hosts);
  return hosts.map((host, place) => ({
    ...host,
    network_yaml: preview.hosts[place]?.network_yaml ?? host.network_yaml,
  }));
};
