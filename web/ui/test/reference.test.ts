import { describe, expect, it } from 'vitest';
import { curlLine, fieldsOf, groupsOf, typeOf, type Document, type Operation } from '../src/reference/document';

const api: Document = {
  info: { title: 'API', version: '1' },
  servers: [{ url: '/api' }],
  paths: {
    '/v2/hosts/{id}': {
      delete: { operationId: 'dropHost', responses: { '204': { description: 'No Content' } } },
      get: {
        operationId: 'getHost',
        summary: 'Show a host',
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string', format: 'uuid' } }],
        responses: {
          '200': {
            description: 'OK',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Host' } } },
          },
        },
      },
    },
    '/v2/clusters': {
      post: {
        operationId: 'makeCluster',
        summary: 'Create a cluster',
        requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Cluster' } } } },
        responses: {},
        'x-landfall-addition': true,
      },
    },
  },
  components: {
    schemas: {
      Host: {
        type: 'object',
        properties: { name: { type: 'string' }, cluster: { $ref: '#/components/schemas/Cluster' } },
      },
      Cluster: {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string' },
          hosts: { type: 'array', items: { $ref: '#/components/schemas/Host' } },
          kind: { type: 'string', enum: ['a', 'b'] },
        },
      },
    },
  },
};

describe('description of the API', () => {
  it('groups by noun, reads before writes', () => {
    const groups = groupsOf(api, '');
    expect(groups.map(({ name }) => name)).toEqual(['clusters', 'hosts']);
    expect(groups[1]?.operations.map(({ id }) => id)).toEqual(['getHost', 'dropHost']);
    expect(groups[1]?.operations[0]).toMatchObject({
      method: 'GET',
      path: '/api/v2/hosts/{id}',
      parameters: [{ name: 'id', place: 'path', required: true, type: 'string, uuid' }],
      answers: [{ status: '200', meaning: 'OK', type: 'Host' }],
    });
    expect(groups[0]?.operations[0]?.added).toBe(true);
  });

  it.each([
    ['host show', ['getHost']],
    ['CLUSTER', ['makeCluster']],
    ['nothing', []],
  ])('search for %j', (search, found) => {
    expect(groupsOf(api, search).flatMap(({ operations }) => operations.map(({ id }) => id))).toEqual(found);
  });

  it('lists nested fields of a body once', () => {
    expect(fieldsOf(api, { $ref: '#/components/schemas/Cluster' })).toEqual([
      { name: 'hosts', depth: 0, required: false, type: 'list of Host' },
      { name: 'cluster', depth: 1, required: false, type: 'Cluster' },
      { name: 'name', depth: 1, required: false, type: 'string' },
      { name: 'kind', depth: 0, required: false, type: '"a" | "b"' },
      { name: 'name', depth: 0, required: true, type: 'string' },
    ]);
    expect(fieldsOf(api, undefined)).toEqual([]);
  });

  it.each([
    [undefined, ''],
    [{}, 'anything'],
    [{ type: 'object', additionalProperties: { type: 'integer' } }, 'map of integer'],
    [{ type: 'array' }, 'list of anything'],
  ])('type of %j', (schema, name) => {
    expect(typeOf(schema)).toBe(name);
  });

  const operation: Operation = {
    id: 'x', method: 'GET', path: '/api/v2/hosts/{host_id}', summary: '', added: false, parameters: [], body: [],
    bodyType: '', bodyFormat: '', answersFile: false, answers: [],
  };
  const field = (name: string, type: string, required = true, depth = 0) => ({ name, type, required, depth });
  it.each<[string, Partial<Operation>, string, string]>([
    ['a read', {}, 'http://a:8090', `curl -fsS -H "T" 'http://a:8090/api/v2/hosts/HOST_ID'`],
    ['over TLS', {}, 'https://a', `curl -fsS --cacert ca.crt -H "T" 'https://a/api/v2/hosts/HOST_ID'`],
    [
      'required parameters only',
      {
        parameters: [
          { name: 'file_name', place: 'query', required: true, type: 'string' },
          { name: 'other', place: 'query', required: false, type: 'string' },
          { name: 'if-match', place: 'header', required: true, type: 'string' },
        ],
        answersFile: true,
      },
      'http://a',
      `curl -fsS -H "T" -H 'if-match: IF_MATCH' -o FILE 'http://a/api/v2/hosts/HOST_ID?file_name=FILE_NAME'`,
    ],
    [
      'a body of required fields',
      {
        method: 'POST',
        bodyFormat: 'application/json',
        body: [
          field('name', 'string'),
          field('inner', 'string', true, 1),
          field('kind', '"a" | "b"'),
          field('count', 'integer, int64'),
          field('wanted', 'boolean'),
          field('free', 'string', false),
        ],
      },
      'http://a',
      `curl -fsS -X POST -H "T" -H 'Content-Type: application/json' ` +
        `-d '{"name":"NAME","kind":"a","count":0,"wanted":false}' 'http://a/api/v2/hosts/HOST_ID'`,
    ],
    [
      'a form',
      { method: 'POST', bodyFormat: 'multipart/form-data', body: [field('upfile', 'string, binary')] },
      'http://a',
      `curl -fsS -X POST -H "T" -F upfile=@FILE 'http://a/api/v2/hosts/HOST_ID'`,
    ],
    [
      'a file as the body',
      { method: 'PUT', bodyFormat: 'application/octet-stream' },
      'http://a',
      `curl -fsS -X PUT -H "T" -H 'Content-Type: application/octet-stream' --data-binary @FILE ` +
        `'http://a/api/v2/hosts/HOST_ID'`,
    ],
  ])('a line of curl for %s', (_name, changes, origin, line) => {
    const token = 'Authorization: Bearer $LANDFALL_TOKEN';
    expect(curlLine({ ...operation, ...changes }, origin)).toBe(line.replace('"T"', `"${token}"`));
  });
});
