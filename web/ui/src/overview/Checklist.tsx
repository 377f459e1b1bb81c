import {
  Alert,
  Card,
  CardBody,
  Content,
  PageSection,
  Progress,
  Spinner,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import CheckCircleIcon from '@patternfly/react-icons/dist/esm/icons/check-circle-icon';
import CircleIcon from '@patternfly/react-icons/dist/esm/icons/outlined-circle-icon';
import ExclamationCircleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon';
import ExclamationTriangleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon';
import { type ReactNode } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { useMay } from '../access/AccessProvider';
import { LinkButton } from '../shell/LinkButton';
import { usePageTitle } from '../shell/usePageTitle';
import { nextLine, progressOf, subjectOf, words, type Line, type LineState, type Setup } from './setup';

/** The home page until the site is set up: what is set, what is missing, and where to set it. */
export const Checklist = ({ setup }: { setup: Setup }) => {
  const { done, needed } = progressOf(setup);
  const next = nextLine(setup);
  const administers = useMay('admin');
  usePageTitle('Set up this site');
  return (
    <div data-testid="checklist">
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">Set up this site</Content>
        <Content component="p">
          {administers
            ? 'Landfall can install clusters when these steps are done. You can leave and come back.'
            : 'Landfall can install clusters when an administrator has done these steps.'}
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          {setup.complete && (
            <StackItem>
              <Alert isInline variant="success" title="The site is set up.">
                <Link to="/">Show the overview</Link>
              </Alert>
            </StackItem>
          )}
          <StackItem>
            <Progress
              title="Steps done"
              value={done}
              max={Math.max(needed, 1)}
              label={`${String(done)} of ${String(needed)}`}
              valueText={`${String(done)} of ${String(needed)} steps done`}
              aria-label="Steps done"
            />
          </StackItem>
          <StackItem>
            <Card>
              <CardBody>
                <ol className="landfall-steps">
                  {setup.lines.map((line) => (
                    <Step key={line.id} line={line} isNext={line === next} mayChange={administers} />
                  ))}
                </ol>
              </CardBody>
            </Card>
          </StackItem>
        </Stack>
      </PageSection>
    </div>
  );
};

const Step = ({ line, isNext, mayChange }: { line: Line; isNext: boolean; mayChange: boolean }) => {
  const subject = subjectOf(line);
  const title = subject?.title ?? line.id;
  const work = isWork(line) && mayChange;
  return (
    <li className="landfall-step" data-testid={`step-${line.id}`} data-state={line.state}>
      <span className="landfall-step-state">
        {icons[line.state]} {words[line.state]}
      </span>
      <div className="landfall-line-text">
        <h2 className="landfall-step-title">{title}</h2>
        <p>{line.result}</p>
        {line.advice && line.state !== 'done' && <p className="landfall-subtle">{line.advice}</p>}
      </div>
      {subject && (
        <LinkButton
          to={subject.path}
          variant={isNext && mayChange ? 'primary' : 'secondary'}
          {...(!work && { 'aria-label': `Show: ${title}` })}
        >
          {work ? subject.action : 'Show'}
        </LinkButton>
      )}
    </li>
  );
};

const isWork = ({ state }: Line): boolean => state !== 'done' && state !== 'checking';

const icons: Record<LineState, ReactNode> = {
  done: <CheckCircleIcon color="var(--pf-t--global--icon--color--status--success--default)" aria-hidden />,
  missing: <ExclamationTriangleIcon color="var(--pf-t--global--icon--color--status--warning--default)" aria-hidden />,
  failed: <ExclamationCircleIcon color="var(--pf-t--global--icon--color--status--danger--default)" aria-hidden />,
  checking: <Spinner size="sm" aria-hidden />,
  optional: <CircleIcon aria-hidden />,
};
