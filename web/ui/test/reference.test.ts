import { describe, expect, it } from 'vitest';
import { fieldsOf, groupsOf, typeOf, type Document } from '../src/reference/document';

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
});
