// A mock of the appliance for development of the pages. It serves the built application and the API
// from memory, with hosts that appear and install themselves. The end-to-end tests use the real
// binary instead.
//
// node e2e/mock/server.mjs [port] [empty] then open the printed address
// curl -X POST :port/mock/hosts?count=3 adds hosts to the newest infra-env

import { randomUUID } from 'node:crypto';
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { image, imageMock } from './images.mjs';
import { clusterOf, hostOf, infraEnvOf, validate, stages } from './objects.mjs';

const assets = fileURLToPath(new URL('../../../../assets/ui', import.meta.url));
const types = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.woff2': 'font/woff2',
  '.ttf': 'font/ttf',
  '.svg': 'image/svg+xml',
};

export const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * Starts the mock at 127.0.0.1; returns its address, the received requests and a function that
 * stops it.
 */
export const startMock = async ({ port = 0, step = 1_500, contentPolicy = policy, isEmpty = false } = {}) => {
  const imagesOf = imageMock({ isEmpty });
  const state = { clusters: new Map(), infraEnvs: new Map(), settings: new Map(), events: [] };
  const listeners = new Set();
  const requests = [];
  let revision = 0;

  const notify = (kind, id, clusterId) => {
    revision += 1;
    const data = JSON.stringify({ revision, kind, id, cluster_id: clusterId ?? '' });
    for (const listener of listeners) {
      listener.write(`id: ${String(revision)}\nevent: change\ndata: ${data}\n\n`);
    }
  };
  const note = (cluster, message, severity = 'info') => {
    state.events.push({
      cluster_id: cluster.id,
      event_time: new Date().toISOString(),
      severity,
      message,
      name: 'mock_event',
      category: 'user',
    });
    notify('events', randomUUID(), cluster.id);
  };
  const touched = (cluster) => {
    validate(cluster);
    cluster.updated_at = new Date().toISOString();
    notify('clusters', cluster.id, cluster.id);
  };

  const install = (cluster) => {
    cluster.status = 'preparing-for-installation';
    cluster.status_info = 'Preparing cluster for installation';
    cluster.install_started_at = new Date().toISOString();
    let at = -1;
    const timer = setInterval(() => {
      at += 1;
      const done = at >= stages.length;
      cluster.status = done ? 'installed' : at >= stages.length - 1 ? 'finalizing' : 'installing';
      cluster.status_info = done ? 'Cluster is installed' : 'Installation in progress';
      const percentage = Math.min(100, Math.round((100 * at) / stages.length));
      cluster.progress = {
        total_percentage: percentage,
        installing_stage_percentage: percentage,
        preparing_for_installation_stage_percentage: 100,
        finalizing_stage_percentage: done ? 100 : 0,
      };
      for (const host of cluster.hosts) {
        host.role = 'master';
        host.bootstrap = host === cluster.hosts[0];
        host.status = done || at === stages.length - 1 ? 'installed' : 'installing-in-progress';
        host.status_info = stages[Math.min(at, stages.length - 1)];
        host.progress = {
          current_stage: stages[Math.min(at, stages.length - 1)],
          installation_percentage: percentage,
          stage_started_at: new Date().toISOString(),
          stage_updated_at: new Date().toISOString(),
        };
      }
      if (done) {
        clearInterval(timer);
        cluster.install_completed_at = new Date().toISOString();
        for (const operator of cluster.monitored_operators) {
          operator.status = 'available';
          operator.status_info = 'available';
        }
      }
      note(cluster, done ? 'Cluster is installed' : `Hosts reached stage ${stages[Math.min(at, 6)]}`);
      touched(cluster);
    }, step);
    timer.unref();
  };

  const addHosts = (infraEnv, count) => {
    const cluster = state.clusters.get(infraEnv.cluster_id);
    for (let made = 0; made < count; made += 1) {
      const host = hostOf(randomUUID(), infraEnv, cluster.hosts.length + 1);
      cluster.hosts.push(host);
      note(cluster, `Host ${host.requested_hostname}: registered`);
      notify('hosts', host.id, cluster.id);
    }
    if (cluster.hosts.length > 0) {
      cluster.machine_networks = [{ cidr: '192.0.2.0/24' }];
    }
    touched(cluster);
  };

  const version = (display, preset) => ({
    display_name: display,
    support_level: 'production',
    default: preset,
    cpu_architectures: ['x86_64'],
  });
  const routes = [
    ['GET', /^\/clusters$/, () => [200, [...state.clusters.values()]]],
    [
      'GET',
      /^\/clusters\/default-config$/,
      () => [
        200,
        {
          cluster_network_cidr: '10.128.0.0/14',
          cluster_network_host_prefix: 23,
          service_network_cidr: '172.30.0.0/16',
          cluster_networks_ipv4: [{ cidr: '10.128.0.0/14', host_prefix: 23 }],
          service_networks_ipv4: [{ cidr: '172.30.0.0/16' }],
          cluster_networks_dualstack: [
            { cidr: '10.128.0.0/14', host_prefix: 23 },
            { cidr: 'fd01::/48', host_prefix: 64 },
          ],
          service_networks_dualstack: [{ cidr: '172.30.0.0/16' }, { cidr: 'fd02::/112' }],
          ntp_source: '',
        },
      ],
    ],
    ['GET', /^\/openshift-versions$/, () => [200, { '4.20.4': version('4.20.4', true) }]],
    ['GET', /^\/domains$/, () => [200, []]],
    ['GET', /^\/component-versions$/, () => [200, { release_tag: 'mock', versions: {} }]],
    ['GET', /^\/supported-operators$/, () => [200, []]],
    ['GET', /^\/operators\/bundles$/, () => [200, []]],
    ['GET', /^\/support-levels\/features$/, () => [200, { features: features() }]],
    ['GET', /^\/support-levels\/architectures$/, () => [200, { architectures: { X86_64_ARCHITECTURE: 'supported' } }]],
    [
      'POST',
      /^\/clusters$/,
      (_, body) => {
        const cluster = clusterOf(randomUUID(), body);
        state.clusters.set(cluster.id, cluster);
        note(cluster, `Successfully registered cluster ${cluster.name}`);
        touched(cluster);
        return [201, cluster];
      },
    ],
    ['GET', /^\/clusters\/([^/]+)$/, ([id]) => found(state.clusters.get(id))],
    [
      'PATCH',
      /^\/clusters\/([^/]+)$/,
      ([id], body) => {
        const cluster = state.clusters.get(id);
        Object.assign(cluster, body);
        touched(cluster);
        return [201, cluster];
      },
    ],
    ['DELETE', /^\/clusters\/([^/]+)$/, ([id]) => [state.clusters.delete(id) ? 204 : 404]],
    [
      'POST',
      /^\/clusters\/([^/]+)\/actions\/install$/,
      ([id]) => {
        const cluster = state.clusters.get(id);
        install(cluster);
        touched(cluster);
        return [202, cluster];
      },
    ],
    ['GET', /^\/clusters\/([^/]+)\/ui-settings$/, ([id]) => [200, state.settings.get(id) ?? '']],
    [
      'PUT',
      /^\/clusters\/([^/]+)\/ui-settings$/,
      ([id], body) => {
        state.settings.set(id, body);
        return [200, body];
      },
    ],
    ['GET', /^\/clusters\/([^/]+)\/manifests$/, () => [200, []]],
    [
      'GET',
      /^\/clusters\/([^/]+)\/supported-platforms$/,
      ([id]) => [200, state.clusters.get(id).control_plane_count === 1 ? ['none'] : ['baremetal', 'none']],
    ],
    ['GET', /^\/clusters\/([^/]+)\/preflight-requirements$/, () => [200, requirements()]],
    [
      'GET',
      /^\/clusters\/([^/]+)\/credentials$/,
      () => [
        200,
        {
          username: 'kubeadmin',
          password: 'mock-mock-mock-mock',
          console_url: 'https://console-openshift-console.apps.mock.site.test',
        },
      ],
    ],
    [
      'GET',
      /^\/clusters\/([^/]+)\/downloads\/credentials-presigned$/,
      ([id]) => [200, { url: `/mock/kubeconfig/${id}` }],
    ],
    ['GET', /^\/clusters\/([^/]+)\/downloads\/credentials$/, () => [200, 'apiVersion: v1\nkind: Config\n']],
    [
      'GET',
      /^\/infra-envs$/,
      ([], _, query) => [
        200,
        [...state.infraEnvs.values()].filter(
          (one) => !query.get('cluster_id') || one.cluster_id === query.get('cluster_id'),
        ),
      ],
    ],
    [
      'POST',
      /^\/infra-envs$/,
      (_, body) => {
        const infraEnv = infraEnvOf(randomUUID(), body);
        state.infraEnvs.set(infraEnv.id, infraEnv);
        notify('infra-envs', infraEnv.id, infraEnv.cluster_id);
        return [201, infraEnv];
      },
    ],
    ['GET', /^\/infra-envs\/([^/]+)$/, ([id]) => found(state.infraEnvs.get(id))],
    [
      'PATCH',
      /^\/infra-envs\/([^/]+)$/,
      ([id], body) => {
        const infraEnv = state.infraEnvs.get(id);
        const { image_type: type, ...rest } = body;
        Object.assign(infraEnv, rest, type ? { type } : {});
        return [201, infraEnv];
      },
    ],
    ['DELETE', /^\/infra-envs\/([^/]+)$/, ([id]) => [state.infraEnvs.delete(id) ? 204 : 404]],
    [
      'GET',
      /^\/infra-envs\/([^/]+)\/downloads\/image-url$/,
      ([id]) => [
        200,
        {
          url: `http://127.0.0.1:${String(server.address().port)}/images/${id}/full.iso`,
          expires_at: '0001-01-01T00:00:00.000Z',
        },
      ],
    ],
    ['GET', /^\/infra-envs\/([^/]+)\/hosts$/, ([id]) => [200, hostsOf(id)]],
    [
      'PATCH',
      /^\/infra-envs\/([^/]+)\/hosts\/([^/]+)$/,
      ([id, hostId], body) => {
        const host = hostsOf(id).find((one) => one.id === hostId);
        if (body.host_name) host.requested_hostname = body.host_name;
        if (body.host_role) host.role = body.host_role;
        touched(state.clusters.get(host.cluster_id));
        return [201, host];
      },
    ],
  ];
  const hostsOf = (id) => state.clusters.get(state.infraEnvs.get(id)?.cluster_id)?.hosts ?? [];

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://mock');
    const sent = await read(request);
    if (!sent) {
      return;
    }
    const text = sent.toString();
    if (url.pathname.startsWith('/api/')) {
      requests.push(`${request.method} ${request.url} ${text.slice(0, 4_096)}`);
    }
    const send = (status, body, headers = {}) => {
      const json = typeof body !== 'string';
      response.writeHead(status, { 'Content-Type': json ? 'application/json' : 'text/plain', ...headers });
      response.end(body === undefined ? '' : json ? JSON.stringify(body) : body);
    };
    if (url.pathname === '/mock/hosts') {
      addHosts([...state.infraEnvs.values()].at(-1), Number(url.searchParams.get('count') ?? '1'));
      send(200, {});
    } else if (url.pathname === '/api/landfall/v1/feed') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
      response.write(': connected\n\n');
      listeners.add(response);
      response.on('close', () => listeners.delete(response));
    } else if (url.pathname === '/api/landfall/v1/status') {
      send(200, {
        version: 'mock',
        url: 'http://192.0.2.2:8090',
        addresses: ['127.0.0.1', '192.0.2.2'],
        os_images: [
          { openshift_version: '4.20', cpu_architecture: 'x86_64', state: 'ready', message: '' },
          { openshift_version: '4.19', cpu_architecture: 'arm64', state: 'error', message: 'file not found' },
        ],
        releases: [{ openshift_version: '4.20.4', cpu_architecture: 'x86_64' }],
      });
    } else if (url.pathname.startsWith('/images/')) {
      response.writeHead(200, {
        'Content-Type': 'application/x-iso9660-image',
        'Content-Disposition': 'attachment; filename="discovery-mock.iso"',
      });
      response.end(image);
    } else if (url.pathname.startsWith('/api/landfall/v1/')) {
      const [status, body, headers] = imagesOf(request.method, url.pathname, request.headers, sent, {
        url: `http://127.0.0.1:${String(server.address().port)}`,
        typeOf: (id) => state.infraEnvs.get(id)?.type ?? '',
      }) ?? [404, { code: 404, message: 'not mocked' }];
      send(status, body, headers);
    } else if (url.pathname.startsWith('/api/assisted-install/v2/')) {
      const path = url.pathname.slice('/api/assisted-install/v2'.length).replace(/\/+/g, '/').replace(/\/$/, '');
      for (const [method, pattern, answer] of routes) {
        const match = method === request.method && pattern.exec(path);
        if (match) {
          const [status, body] = answer(match.slice(1), text ? JSON.parse(text) : {}, url.searchParams);
          send(status, body);
          return;
        }
      }
      if (path === '/events') {
        const all = state.events.filter((one) => one.cluster_id === url.searchParams.get('cluster_id')).reverse();
        const offset = Number(url.searchParams.get('offset') ?? '0');
        send(200, all.slice(offset, offset + Number(url.searchParams.get('limit') ?? '10')), {
          'event-count': String(all.length),
          'severity-count-info': String(all.length),
          'severity-count-warning': '0',
          'severity-count-error': '0',
          'severity-count-critical': '0',
        });
        return;
      }
      console.error(`not mocked: ${request.method} ${request.url}`);
      send(501, { code: '501', href: '', id: 501, kind: 'Error', reason: 'not mocked' });
    } else {
      const file = join(assets, url.pathname);
      const path = existsSync(file) && statSync(file).isFile() ? file : join(assets, 'index.html');
      response.writeHead(200, {
        'Content-Type': types[extname(path)] ?? 'application/octet-stream',
        'Content-Security-Policy': contentPolicy,
      });
      createReadStream(path).pipe(response);
    }
  });
  await new Promise((listening) => server.listen(port, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${String(server.address().port)}`,
    port: server.address().port,
    requests,
    state,
    addHosts: (count) => addHosts([...state.infraEnvs.values()].at(-1), count),
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

const found = (object) =>
  object ? [200, object] : [404, { code: '404', href: '', id: 404, kind: 'Error', reason: 'not found' }];

/** Reads the whole body; undefined if the browser cancels the request. */
const read = async (request) => {
  const parts = [];
  try {
    for await (const part of request) {
      parts.push(part);
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(parts);
};

const features = () =>
  Object.fromEntries(
    [
      'SNO',
      'VIP_AUTO_ALLOC',
      'CUSTOM_MANIFEST',
      'USER_MANAGED_NETWORKING',
      'CLUSTER_MANAGED_NETWORKING',
      'DUAL_STACK_VIPS',
      'BAREMETAL_PLATFORM',
      'NONE_PLATFORM',
      'MINIMAL_ISO',
      'FULL_ISO',
      'OVN_NETWORK_TYPE',
      'DUAL_STACK',
    ]
      .map((id) => [id, 'supported'])
      .concat(
        [
          'SDN_NETWORK_TYPE',
          'NUTANIX_INTEGRATION',
          'VSPHERE_INTEGRATION',
          'EXTERNAL_PLATFORM_OCI',
          'EXTERNAL_PLATFORM',
          'ODF',
          'LSO',
          'LVM',
          'CNV',
          'MCE',
          'MTV',
          'OPENSHIFT_AI',
          'OSC',
          'NON_STANDARD_HA_CONTROL_PLANE',
          'TNA',
          'TNF',
        ].map((id) => [id, 'unavailable']),
      ),
  );

const requirements = () => {
  const role = (cores, ram) => ({
    quantitative: {
      cpu_cores: cores,
      ram_mib: ram,
      disk_size_gb: 100,
      installation_disk_speed_threshold_ms: 10,
      network_latency_threshold_ms: 100,
      packet_loss_percentage: 0,
    },
    qualitative: [],
  });
  return {
    ocp: { master: role(4, 16_384), worker: role(2, 8_192) },
    operators: [],
  };
};

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const mock = await startMock({ port: Number(process.argv[2] ?? '8099'), isEmpty: process.argv[3] === 'empty' });
  console.log(mock.url);
}
