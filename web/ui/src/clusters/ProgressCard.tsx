import { Card, CardBody, CardTitle, Content, ExpandableSection, Label, Progress as Bar } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState, type ReactNode } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { counted } from '../overview/words';
import { asSentence, duration, moment } from '../shell/quantities';
import { compareNatural } from '../shell/rows';
import type { HostProgress, Progress, Stage } from './api';
import { marksOf, segmentsOf, spanOf, type Span } from './chart';
import { useLater } from './useProgress';
import { currentStage, isInstalling, roleName, stateNames, toneOf } from './words';

const rank = ['bootstrap', 'master', 'arbiter', 'worker'];

/** The picture of an installation: its phases, each host with its stages, and the time left. */
export const ProgressCard = ({ progress }: { progress: Progress }) => {
  const runs = isInstalling(progress.status);
  const later = useLater(progress, runs);
  const span = spanOf(progress, later);
  const hosts = [...progress.hosts].sort(
    (a, b) => rank.indexOf(a.role) - rank.indexOf(b.role) || compareNatural(a.name, b.name),
  );
  return (
    <Card component="section" aria-labelledby="installation-progress">
      <CardTitle>
        <h2 id="installation-progress" className="landfall-card-title">
          Installation progress
        </h2>
      </CardTitle>
      <CardBody>
        <Summary progress={progress} span={span} later={later} />
        <div className="landfall-lanes" data-testid="lanes">
          <Lane name="Cluster" subtitle={phaseText(progress)} stages={progress.phases} span={span} />
          {hosts.map((host) => (
            <HostLane key={`${host.infra_env_id}/${host.id}`} host={host} span={span} />
          ))}
          {progress.finalizing_stages.length > 0 && (
            <Lane
              name="Completion"
              subtitle={completionText(progress)}
              stages={progress.finalizing_stages}
              span={span}
            />
          )}
          <div className="landfall-axis" aria-hidden>
            {marksOf(span).map(({ seconds, left }) => (
              <span key={seconds} style={{ insetInlineStart: `${String(left)}%` }}>
                {seconds === 0 ? '0' : duration(seconds)}
              </span>
            ))}
          </div>
        </div>
        <Operators progress={progress} />
        <Times progress={progress} hosts={hosts} />
      </CardBody>
    </Card>
  );
};

const Summary = ({ progress, span, later }: { progress: Progress; span: Span; later: number }) => {
  const { percent, estimate, status, started_at: started } = progress;
  const took = duration((span.now - span.start) / 1000);
  const left = Math.max(0, (estimate?.seconds ?? 0) - later / 1000);
  return (
    <>
      {isInstalling(status) && (
        <Bar
          aria-label={`Installation of ${progress.name}`}
          value={percent}
          valueText={`${String(percent)} percent`}
          label={`${String(percent)} %`}
          measureLocation="outside"
        />
      )}
      <Content component="p" data-testid="time-left">
        {status === 'installed' && <strong>The cluster is installed. </strong>}
        {started && `Started ${moment(started)}, `}
        {isInstalling(status) ? `running for ${took}. ` : `took ${took}. `}
        {isInstalling(status) &&
          (estimate ? (
            <>
              <strong>{left > 0 ? `About ${duration(roughly(left))} left` : 'Longer than usual'}</strong>
              {`: ${counted(estimate.installations, 'similar installation')} at this site took ${between(
                estimate.shortest_seconds,
                estimate.longest_seconds,
              )}.`}
            </>
          ) : (
            'No similar installation has finished at this site yet, so the time left is not known.'
          ))}
      </Content>
    </>
  );
};

/** Rounds a time up so that it does not suggest a precision that an estimate lacks. */
const roughly = (seconds: number): number => {
  const step = seconds > 600 ? 60 : seconds > 60 ? 15 : 5;
  return Math.ceil(seconds / step) * step;
};

const between = (shortest: number, longest: number): string =>
  duration(shortest) === duration(longest) ? duration(longest) : `${duration(shortest)} to ${duration(longest)}`;

const phaseText = ({ status, phases }: Progress): string =>
  status === 'installed' ? 'Installed' : (currentStage(phases)?.name ?? 'Not begun');

const completionText = ({ status, finalizing_stages: stages }: Progress): string =>
  status === 'installed' ? 'Done' : (currentStage(stages)?.name ?? '');

const HostLane = ({ host, span }: { host: HostProgress; span: Span }) => {
  const stage = currentStage(host.stages);
  const runs = host.state === 'running' && stage?.started_at;
  const seconds = runs ? (span.now - Date.parse(stage.started_at ?? '')) / 1000 : (stage?.seconds ?? 0);
  const percent = /^\d+%$/.test(host.stage_info ?? '') && host.stage === stage?.name ? ` ${host.stage_info ?? ''}` : '';
  const details = [
    roleName(host.role),
    host.state === 'done' ? 'installed' : stage && `${stage.name}${percent}`,
    stage && host.state !== 'done' && duration(seconds),
    stage?.usual_seconds && host.state === 'running' && `usually ${duration(stage.usual_seconds)}`,
  ];
  return (
    <Lane
      name={host.name}
      path={`/hosts/${host.infra_env_id}/${host.id}`}
      subtitle={details.filter(Boolean).join(', ')}
      stages={host.stages}
      span={span}
      mark={
        <>
          {host.state !== 'running' && (
            <Label isCompact {...(toneOf(host.state) && { status: toneOf(host.state) })}>
              {host.state === 'done' ? 'Installed' : stateNames[host.state]}
            </Label>
          )}
          {stage?.late && (
            <Label isCompact status="warning">
              Late
            </Label>
          )}
        </>
      }
    />
  );
};

type LaneProps = {
  name: string;
  /** Of the page about the part. */
  path?: string;
  subtitle: string;
  stages: readonly Stage[];
  span: Span;
  mark?: ReactNode;
};

const Lane = ({ name, path, subtitle, stages, span, mark }: LaneProps) => {
  const segments = segmentsOf(stages, span);
  const spoken = segments.map((one) => `${one.name}: ${stateNames[one.state].toLowerCase()}, ${duration(one.seconds)}`);
  return (
    <div className="landfall-lane">
      <div className="landfall-lane-title">
        {path ? <Link to={path}>{name}</Link> : <strong>{name}</strong>} {mark}
        <div className="landfall-subtle">{subtitle}</div>
      </div>
      <div
        className="landfall-lane-track"
        role="img"
        aria-label={`Stages of ${name}. ${spoken.join('; ') || 'Nothing has begun.'}`}
      >
        {segments.map((one) => (
          <span
            key={one.name}
            className="landfall-lane-stage"
            data-state={one.state}
            title={`${one.name}: ${stateNames[one.state].toLowerCase()}, ${duration(one.seconds)}`}
            style={{ insetInlineStart: `${String(one.left)}%`, inlineSize: `${String(one.width)}%` }}
          />
        ))}
        {span.end > span.now && (
          <span
            className="landfall-lane-now"
            style={{ insetInlineStart: `${String((100 * (span.now - span.start)) / (span.end - span.start))}%` }}
          />
        )}
      </div>
    </div>
  );
};

const operatorWords: Record<string, string> = {
  available: 'Available',
  progressing: 'Being installed',
  failed: 'Failed',
  '': 'Not reported yet',
};

const Operators = ({ progress: { operators, phases } }: { progress: Progress }) => {
  const begun = phases.some(({ name, state }) => name === 'Finalizing' && state !== 'waiting');
  if (!begun || operators.length === 0) {
    return null;
  }
  return (
    <ul className="landfall-operators" aria-label="Operators">
      {operators.map(({ name, status, status_info: info }) => (
        <li key={name}>
          <Label
            isCompact
            {...(status === 'available' && { status: 'success' })}
            {...(status === 'failed' && { status: 'danger' })}
          >
            {operatorWords[status] ?? status}
          </Label>{' '}
          {name}
          {status !== 'available' && info && <span className="landfall-subtle"> {asSentence(info)}</span>}
        </li>
      ))}
    </ul>
  );
};

/** The stages of all hosts as a table. */
const Times = ({ progress, hosts }: { progress: Progress; hosts: HostProgress[] }) => {
  const [expanded, setExpanded] = useState(false);
  const rows = [
    ...progress.phases.map((stage) => ({ of: 'Cluster', stage })),
    ...hosts.flatMap((host) => host.stages.map((stage) => ({ of: host.name, stage }))),
    ...progress.finalizing_stages.map((stage) => ({ of: 'Completion', stage })),
  ];
  return (
    <ExpandableSection
      toggleText={expanded ? 'Hide the times of all stages' : 'Show the times of all stages'}
      isExpanded={expanded}
      onToggle={(_event, now) => {
        setExpanded(now);
      }}
    >
      {expanded && (
        <Table variant="compact" gridBreakPoint="grid-md" data-testid="times">
          <caption className="pf-v6-screen-reader">Stages of the installation with their times</caption>
          <Thead>
            <Tr>
              <Th>Part</Th>
              <Th>Stage</Th>
              <Th>State</Th>
              <Th>Took</Th>
              <Th>Usually</Th>
            </Tr>
          </Thead>
          <Tbody>
            {rows.map(({ of, stage }) => (
              <Tr key={`${of}/${stage.name}`}>
                <Td dataLabel="Part">{of}</Td>
                <Td dataLabel="Stage">{stage.name}</Td>
                <Td dataLabel="State">{stateNames[stage.state]}</Td>
                <Td dataLabel="Took">{stage.started_at ? duration(stage.seconds ?? 0) : ''}</Td>
                <Td dataLabel="Usually">{stage.usual_seconds ? duration(stage.usual_seconds) : ''}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
    </ExpandableSection>
  );
};
