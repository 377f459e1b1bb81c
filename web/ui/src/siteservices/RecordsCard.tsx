import { Alert, Button, Content, Flex, FlexItem, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { Link } from 'react-router-dom-v5-compat';
import { CopyButton } from '../shell/CopyButton';
import { save } from '../shell/download';
import { SectionCard } from '../shell/SectionCard';
import { Toned } from '../shell/Toned';
import type { Services, Zone } from './api';
import { lineOf, notesOf, zoneFileOf, zoneStateOf } from './words';

/** The DNS records of the clusters, for the site's own DNS. */
export const RecordsCard = ({ dns }: { dns: Services['dns'] }) => {
  const zones = dns.zones ?? [];
  const all = zones.flatMap(({ records }) => records);
  const { own, forwarded, refused } = dns.counts;
  return (
    <SectionCard id="service-records" title="DNS records">
      <Stack hasGutter>
        <StackItem>
          <Content component="p">
            The appliance&apos;s DNS leaves with the appliance. Copy these records to the site&apos;s own DNS before.
          </Content>
          {own + forwarded + refused > 0 && (
            <Content component="small">
              Questions since the start: {own} answered, {forwarded} forwarded, {refused} refused.
            </Content>
          )}
        </StackItem>
        {all.length === 0 && (
          <StackItem>No records: no cluster has a name, a base domain and addresses yet.</StackItem>
        )}
        {zones.map((zone) => (
          <StackItem key={zone.cluster_id}>
            <ZoneRecords zone={zone} />
          </StackItem>
        ))}
        {all.length > 0 && (
          <StackItem>
            <Button
              variant="secondary"
              onClick={() => {
                save('landfall.zone', new Blob([zoneFileOf(all)], { type: 'text/plain' }));
              }}
            >
              Download as a zone file
            </Button>
          </StackItem>
        )}
      </Stack>
    </SectionCard>
  );
};

const ZoneRecords = ({ zone }: { zone: Zone }) => (
  <Stack hasGutter data-testid="zone">
    <StackItem>
      <Flex alignItems={{ default: 'alignItemsCenter' }}>
        <FlexItem>
          <h3 className="landfall-step-title landfall-address">{zone.name}</h3>
        </FlexItem>
        <FlexItem>
          <Toned {...zoneStateOf(zone)} />
        </FlexItem>
        <FlexItem>
          <Link to={`/assisted-installer/clusters/${zone.cluster_id}`}>Cluster {zone.cluster}</Link>
        </FlexItem>
        {zone.records.length > 0 && (
          <FlexItem>
            <CopyButton id={`copy-${zone.cluster_id}`} text={zoneFileOf(zone.records)}>
              {`Copy all records of ${zone.name}`}
            </CopyButton>
          </FlexItem>
        )}
      </Flex>
    </StackItem>
    {notesOf(zone).map((text) => (
      <StackItem key={text}>
        <Alert isInline isPlain variant="warning" title={text} className="landfall-address" />
      </StackItem>
    ))}
    {zone.records.length > 0 && (
      <StackItem>
        <Table aria-label={`Records of ${zone.name}`} variant="compact">
          <Thead>
            <Tr>
              <Th width={50}>Name</Th>
              <Th>Type</Th>
              <Th width={30}>Value</Th>
              <Th screenReaderText="Copy" />
            </Tr>
          </Thead>
          <Tbody>
            {zone.records.map((record) => {
              const line = lineOf(record);
              return (
                <Tr key={line} data-testid="record">
                  <Td dataLabel="Name">
                    <div className="landfall-address">{record.name}</div>
                  </Td>
                  <Td dataLabel="Type">{record.type}</Td>
                  <Td dataLabel="Value">
                    <div className="landfall-address">{record.value}</div>
                  </Td>
                  <Td isActionCell>
                    <CopyButton id={`copy-${line.replaceAll(/[^\w.-]/g, '_')}`} text={line}>
                      {`Copy the record ${record.name} ${record.type}`}
                    </CopyButton>
                  </Td>
                </Tr>
              );
            })}
          </Tbody>
        </Table>
      </StackItem>
    )}
  </Stack>
);
