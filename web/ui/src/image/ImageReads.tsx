import { Alert, Flex, FlexItem, Label, Spinner } from '@patternfly/react-core';
import CheckCircleIcon from '@patternfly/react-icons/dist/esm/icons/check-circle-icon';
import InProgressIcon from '@patternfly/react-icons/dist/esm/icons/in-progress-icon';
import PauseCircleIcon from '@patternfly/react-icons/dist/esm/icons/pause-circle-icon';
import { useCallback, useEffect, useRef, useState } from 'react';
import { bytes, duration, moment } from '../shell/quantities';
import { useAnswer } from '../shell/useAnswer';
import { getReads, type Read, type ReadSegment } from './api';
import { announce, describeType, inOrder } from './facts';

/** Polling intervals in milliseconds: short while a machine reads, otherwise long. */
const whileReading = 1_000;
const otherwise = 3_000;
const wait = (reads: Read[] | undefined) =>
  reads?.some(({ state }) => state === 'reading') ? whileReading : otherwise;

/**
 * The machines that read an infra-env's image, with their progress. They show where a boot stops.
 */
export const ImageReads = ({ infraEnvId }: { infraEnvId: string }) => {
  const load = useCallback((signal: AbortSignal) => getReads(infraEnvId, signal), [infraEnvId]);
  const { answer, error } = useAnswer(load, wait);
  const spoken = useAnnouncement(answer);
  return (
    <section aria-label="Machines that read the image" data-testid="image-reads">
      <div className="pf-v6-screen-reader" role="status">
        {spoken}
      </div>
      {error && (
        <Alert
          isInline
          isPlain
          variant="warning"
          title={`${answer ? 'The progress may be out of date.' : 'The progress cannot be shown.'} ${error.message}`}
        />
      )}
      <Reads reads={answer} isLoading={!error} />
    </section>
  );
};

const Reads = ({ reads, isLoading }: { reads: Read[] | undefined; isLoading: boolean }) => {
  if (!reads) {
    return isLoading ? <Spinner size="md" aria-label="Reading the progress of machines" /> : null;
  }
  if (reads.length === 0) {
    return (
      <p className="landfall-subtle" data-testid="image-reads-empty">
        No machine has read the image yet. Boot a machine from it to see its progress here.
      </p>
    );
  }
  return (
    <ul className="landfall-reads">
      {inOrder(reads).map((read) => (
        <li key={`${read.client} ${read.image} ${read.kind} ${read.first_read}`}>
          <OneRead read={read} />
        </li>
      ))}
    </ul>
  );
};

const OneRead = ({ read }: { read: Read }) => (
  <article className="landfall-read" data-testid="read" data-state={read.state} aria-label={read.client}>
    <Flex gap={{ default: 'gapSm' }} alignItems={{ default: 'alignItemsBaseline' }}>
      <FlexItem>
        <strong>{read.client}</strong>
      </FlexItem>
      <FlexItem>
        <StateLabel state={read.state} />
      </FlexItem>
      <FlexItem className="landfall-subtle">{facts(read).join(' · ')}</FlexItem>
    </Flex>
    <p data-testid="read-sentence">{read.sentence}</p>
    <ol className="landfall-segments" aria-label="Share of each part that was read">
      {(read.segments ?? []).map((segment) => (
        <Segment key={segment.name} segment={segment} />
      ))}
    </ol>
  </article>
);

const Segment = ({ segment: { name, share_percent: share } }: { segment: ReadSegment }) => {
  const percent = Math.floor(share);
  return (
    <li className="landfall-segment" data-testid="read-segment" data-name={name} data-percent={percent}>
      <div
        role="meter"
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        aria-valuetext={`${String(percent)} percent read`}
        className="landfall-meter"
      >
        <div style={{ inlineSize: `${String(Math.min(100, share))}%` }} data-whole={share >= 100} />
      </div>
      <span aria-hidden>
        {name} <span className="landfall-subtle">{percent > 0 || share === 0 ? percent : '<1'} %</span>
      </span>
    </li>
  );
};

const StateLabel = ({ state }: { state: Read['state'] }) => {
  switch (state) {
    case 'reading':
      return (
        <Label isCompact status="info" icon={<InProgressIcon />}>
          Reading
        </Label>
      );
    case 'finished':
      return (
        <Label isCompact status="success" icon={<CheckCircleIcon />}>
          Finished
        </Label>
      );
    case 'stopped':
      return (
        <Label isCompact status="warning" icon={<PauseCircleIcon />}>
          Stopped
        </Label>
      );
  }
};

const facts = ({
  kind,
  bytes: count,
  bytes_per_second: speed,
  ranges_per_second: ranges,
  first_read: first,
  last_read: last,
  state,
}: Read): string[] =>
  [
    describeType(kind),
    bytes(count),
    state === 'reading' && `${bytes(speed)}/s`,
    state === 'reading' && ranges > 0 && `${ranges.toFixed(ranges < 10 ? 1 : 0)} ranges/s`,
    `from ${moment(first)}, for ${duration((Date.parse(last) - Date.parse(first)) / 1_000)}`,
  ].filter((fact): fact is string => typeof fact === 'string' && fact !== '');

/**
 * Announces changes of state to screen readers. The numbers change each second and are not
 * announced.
 */
const useAnnouncement = (reads: Read[] | undefined): string => {
  const before = useRef<Read[]>(undefined);
  const [spoken, setSpoken] = useState('');
  useEffect(() => {
    if (reads && before.current) {
      const news = announce(before.current, reads);
      if (news) {
        setSpoken(news);
      }
    }
    before.current = reads ?? before.current;
  }, [reads]);
  return spoken;
};
