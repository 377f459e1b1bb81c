import { Content, Label } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { Link } from 'react-router-dom-v5-compat';
import { readReleases } from '../mirror/releases';
import { getStatus } from '../shell/appliance';
import { SectionCard } from '../shell/SectionCard';
import { Toned, type Tone } from '../shell/Toned';
import { useAnswer } from '../shell/useAnswer';
import type { Release } from './api';
import { liveISOOf, releaseName } from './words';

const seldom = () => 5_000;

/** The releases on the media: whether clusters may use them, and their live ISOs. */
export const ReleasesCard = ({ releases }: { releases: Release[] }) => (
  <SectionCard id="registry-releases" title="Releases on the media">
    {releases.length === 0 ? (
      <Content component="p">The media hold no release of OpenShift.</Content>
    ) : (
      <Releases releases={releases} />
    )}
  </SectionCard>
);

const Releases = ({ releases }: { releases: Release[] }) => {
  const { answer: allowed } = useAnswer(readReleases, seldom);
  const { answer: status } = useAnswer(getStatus, seldom);
  return (
    <Table aria-label="Releases on the media" variant="compact">
      <Thead>
        <Tr>
          <Th width={40}>Release</Th>
          <Th>For clusters</Th>
          <Th width={40}>Live ISO</Th>
        </Tr>
      </Thead>
      <Tbody>
        {releases.map((release) => (
          <Tr key={release.digest} data-testid="release">
            <Td dataLabel="Release">
              {releaseName(release)}
              <div className="landfall-subtle landfall-address">{release.digest}</div>
            </Td>
            <Td dataLabel="For clusters">
              {allowed && (
                <Allowed isAllowed={!!allowed.releases?.some(({ digest }) => digest === release.digest)} />
              )}
            </Td>
            <Td dataLabel="Live ISO">{status && <LiveISO {...liveISOOf(release, status.os_images)} />}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
};

const Allowed = ({ isAllowed }: { isAllowed: boolean }) =>
  isAllowed ? (
    <Label isCompact status="success">
      Allowed
    </Label>
  ) : (
    <>
      <Label isCompact status="warning">
        Not allowed
      </Label>{' '}
      <Link to="/mirror">Allow it on the page Mirror</Link>
    </>
  );

const LiveISO = ({ details, ...state }: { tone: Tone; text: string; details: string }) => (
  <>
    <Toned {...state} />
    {details && <div className="landfall-subtle landfall-address">{details}</div>}
  </>
);
