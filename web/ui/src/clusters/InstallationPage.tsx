import {
  Alert,
  Breadcrumb,
  BreadcrumbItem,
  Button,
  Content,
  Flex,
  Label,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { Requires } from '../access/AccessProvider';
import { stateOf } from '../overview/words';
import { Confirm } from '../shell/Confirm';
import { asSentence, moment } from '../shell/quantities';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { AccessCard } from './AccessCard';
import { allowAddHosts, cancel, readDetails, reset, type Progress } from './api';
import { DeleteButton } from './DeleteButton';
import { DetailsCard } from './DetailsCard';
import { EventsCard } from './EventsCard';
import { FailureCard } from './FailureCard';
import { LogsButton } from './LogsButton';
import { ProgressCard } from './ProgressCard';
import { RegistryCard } from './RegistryCard';
import { hasFailedPart, isInstalling } from './words';

const seldom = () => 300_000;

type Props = { progress: Progress; refetch: () => void };

/** A cluster whose installation runs, has ended or has failed. */
export const InstallationPage = ({ progress, refetch }: Props) => {
  const { cluster_id: id, name, status } = progress;
  const load = useCallback((signal: AbortSignal) => readDetails(id, signal), [id]);
  const { answer: details } = useAnswer(load, seldom);
  const { act, failure } = useAct(refetch);
  usePageTitle(name);
  const blocked = progress.hosts.filter(({ state }) => state === 'blocked');
  const hasAccess = status === 'installed' || status === 'finalizing';
  return (
    <div data-testid="installation">
      <PageSection hasBodyWrapper={false}>
        <Breadcrumb aria-label="Path">
          <BreadcrumbItem>
            <Link to="/assisted-installer/clusters">Clusters</Link>
          </BreadcrumbItem>
          <BreadcrumbItem isActive>{name}</BreadcrumbItem>
        </Breadcrumb>
        <Content component="h1">{name}</Content>
        <Flex gap={{ default: 'gapSm' }} alignItems={{ default: 'alignItemsCenter' }}>
          <span role="status" data-testid="cluster-state">
            <Label {...(stateOf(status).tone && { status: stateOf(status).tone })}>{stateOf(status).text}</Label>
          </span>
          <span>OpenShift {progress.openshift_version}</span>
          <Actions progress={progress} act={act} />
        </Flex>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          {failure && (
            <StackItem>
              <Alert isInline variant="danger" title={failure} data-testid="failure" />
            </StackItem>
          )}
          {progress.failure && (
            <StackItem>
              <FailureCard
                failure={progress.failure}
                actions={
                  <Flex gap={{ default: 'gapSm' }} className="landfall-row">
                    <ResetButton progress={progress} act={act} />
                    <LogsButton clusterId={id} />
                  </Flex>
                }
              />
            </StackItem>
          )}
          {status === 'cancelled' && (
            <StackItem>
              <Alert
                isInline
                variant="info"
                component="h2"
                title={`The installation was cancelled${progress.ended_at ? ` on ${moment(progress.ended_at)}` : ''}.`}
              >
                <Content component="p">Reset the cluster to change its settings and to install it again.</Content>
                <ResetButton progress={progress} act={act} />
              </Alert>
            </StackItem>
          )}
          {blocked.length > 0 && (
            <StackItem>
              <Alert isInline variant="warning" component="h2" title="The installation waits for a person.">
                <ul className="landfall-advice">
                  {blocked.map((host) => (
                    <li key={host.id}>
                      <Link to={`/hosts/${host.infra_env_id}/${host.id}`}>{host.name}</Link>:{' '}
                      {asSentence(host.status_info)}
                    </li>
                  ))}
                </ul>
              </Alert>
            </StackItem>
          )}
          {status === 'installed' && hasFailedPart(progress) && (
            <StackItem>
              <Alert isInline variant="warning" title={asSentence(progress.status_info)} />
            </StackItem>
          )}
          {hasAccess && details && !details.imported && (
            <StackItem>
              <AccessCard cluster={{ id, name, domain: details.base_dns_domain ?? '' }} />
            </StackItem>
          )}
          <StackItem>
            <ProgressCard progress={progress} />
          </StackItem>
          {details && (
            <StackItem>
              <DetailsCard details={details} />
            </StackItem>
          )}
          <RegistryCard id={id} />
          <StackItem>
            <EventsCard clusterId={id} />
          </StackItem>
        </Stack>
      </PageSection>
    </div>
  );
};

type ActionProps = { progress: Progress; act: ReturnType<typeof useAct>['act'] };

const Actions = ({ progress: { cluster_id: id, name, status, failure }, act }: ActionProps) => {
  const [asked, setAsked] = useState<'add' | 'cancel'>();
  const close = () => {
    setAsked(undefined);
  };
  return (
    <>
      {!failure && <LogsButton clusterId={id} />}
      <Requires role="operator">
        {status === 'installed' && (
          <Button
            variant="secondary"
            onClick={() => {
              setAsked('add');
            }}
          >
            Add hosts
          </Button>
        )}
        {isInstalling(status) ? (
          <Button
            variant="danger"
            onClick={() => {
              setAsked('cancel');
            }}
          >
            Cancel installation
          </Button>
        ) : (
          <DeleteButton cluster={{ id, name, status }} />
        )}
      </Requires>
      {asked === 'add' && (
        <Confirm
          title={`Add hosts to ${name}?`}
          action="Add hosts"
          onConfirm={() => void act(() => allowAddHosts(id))}
          onClose={close}
        >
          From then on, the cluster takes more hosts, and this page shows these instead of the progress and the times of
          the installation. This cannot be undone.
        </Confirm>
      )}
      {asked === 'cancel' && (
        <Confirm
          title={`Cancel the installation of ${name}?`}
          action="Cancel installation"
          dismiss="Continue installation"
          onConfirm={() => void act(() => cancel(id))}
          onClose={close}
        >
          The hosts stop where they are, and their disks may be half written. To install again, reset the cluster and
          boot its hosts from the discovery image.
        </Confirm>
      )}
    </>
  );
};

const ResetButton = ({ progress: { cluster_id: id, name }, act }: ActionProps) => {
  const [isAsked, setAsked] = useState(false);
  return (
    <Requires role="operator">
      <Button
        variant="danger"
        onClick={() => {
          setAsked(true);
        }}
      >
        Reset cluster
      </Button>
      {isAsked && (
        <Confirm
          title={`Reset cluster ${name}?`}
          action="Reset cluster"
          onConfirm={() => void act(() => reset(id))}
          onClose={() => {
            setAsked(false);
          }}
        >
          The settings of the cluster stay. The kubeconfig and the progress of this installation are lost: download the
          logs first. Afterwards, boot each host from the discovery image again.
        </Confirm>
      )}
    </Requires>
  );
};
