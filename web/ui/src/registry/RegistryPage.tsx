import {
  Button,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  PageSection,
  StackItem,
} from '@patternfly/react-core';
import PlugIcon from '@patternfly/react-icons/dist/esm/icons/plug-icon';
import { useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { Copyable } from '../image/Copyable';
import { useRefetchOn } from '../live/useRefetchOn';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { AddDialog } from './AddDialog';
import { readRegistry, type Registry } from './api';
import { ClientsCard } from './ClientsCard';
import { CopyDialog } from './CopyDialog';
import { DependentsCard } from './DependentsCard';
import { GapsCard } from './GapsCard';
import { HandOverCard } from './HandOverCard';
import { MediaCard } from './MediaCard';
import { ReleasesCard } from './ReleasesCard';
import { StorageCard } from './StorageCard';
import { VerifyCard } from './VerifyCard';
import { isMoving } from './words';

const often = 1_000;
const seldom = 3_000;
const rarely = 30_000;
const wait = (registry: Registry | null | undefined) => {
  if (registry === null) {
    return rarely;
  }
  return isMoving(registry) ? often : seldom;
};

type Dialog = { name: 'add' } | { name: 'copy'; medium: string };

/** The page of the appliance's registry: its media, their copies, and the clusters that pull. */
const RegistryPage = () => {
  const { answer: registry, error, refetch } = useAnswer(readRegistry, wait);
  const [dialog, setDialog] = useState<Dialog>();
  const { act, failure } = useAct(refetch);
  useRefetchOn(['clusters'], refetch, { interval: seldom });
  const add = () => {
    setDialog({ name: 'add' });
  };
  const close = () => {
    setDialog(undefined);
    refetch();
  };
  if (registry === null) {
    return <NoRegistry />;
  }
  const isEmpty = registry?.media.length === 0;
  return (
    <>
      <PageFrame
        title="Registry"
        about={
          <>
            The appliance&apos;s own registry serves the images on a stick or a disk as they lie there.{' '}
            <Help to="registry">About the registry</Help>
          </>
        }
        head={
          registry?.host && (
            <div className="landfall-short">
              <Copyable label="Address of the registry">{registry.host}</Copyable>
            </div>
          )
        }
        failure={failure}
        error={error}
        hasAnswer={registry !== undefined}
        waiting="Reading the registry's state"
      >
        {isEmpty && (
          <StackItem>
            <NoMedia onAdd={add} />
          </StackItem>
        )}
        {registry && (
          <>
            <StackItem>
              <MediaCard
                registry={registry}
                act={act}
                onAdd={add}
                onCopy={(medium) => {
                  setDialog({ name: 'copy', medium });
                }}
              />
            </StackItem>
            {!isEmpty && (
              <>
                <StackItem>
                  <ReleasesCard releases={registry.releases} />
                </StackItem>
                <StackItem>
                  <GapsCard gaps={registry.gaps} />
                </StackItem>
              </>
            )}
            <StackItem>
              <DependentsCard dependents={registry.dependents} act={act} />
            </StackItem>
            <StackItem>
              <HandOverCard isStarted={registry.hand_over} onStart={refetch} />
            </StackItem>
            <StackItem>
              <ClientsCard clients={registry.clients} sent={registry.sent_bytes} />
            </StackItem>
            {(!isEmpty || registry.pushed_bytes > 0) && (
              <StackItem>
                <VerifyCard verify={registry.verify} act={act} />
              </StackItem>
            )}
            <StackItem>
              <StorageCard registry={registry} act={act} />
            </StackItem>
          </>
        )}
      </PageFrame>
      {dialog?.name === 'add' && <AddDialog onClose={close} />}
      {dialog?.name === 'copy' && <CopyDialog medium={dialog.medium} onClose={close} />}
    </>
  );
};

export default RegistryPage;

const NoRegistry = () => {
  usePageTitle('Registry');
  return (
    <PageSection hasBodyWrapper={false} isFilled>
      <EmptyState titleText="This appliance has no registry" headingLevel="h1" data-testid="no-registry">
        <EmptyStateBody>
          To serve the images on a stick, set registry.listen in the configuration, such as 0.0.0.0:5000, and restart
          the appliance. <Help to="registry">About the registry</Help>
        </EmptyStateBody>
      </EmptyState>
    </PageSection>
  );
};

const NoMedia = ({ onAdd }: { onAdd: () => void }) => (
  <EmptyState icon={PlugIcon} titleText="No media yet" headingLevel="h2" variant="sm" data-testid="no-media">
    <EmptyStateBody>
      Plug in the stick with your images at a watched path, or add the path of a file or folder.
    </EmptyStateBody>
    <Requires role="admin">
      <EmptyStateFooter>
        <EmptyStateActions>
          <Button onClick={onAdd}>Add media</Button>
        </EmptyStateActions>
      </EmptyStateFooter>
    </Requires>
  </EmptyState>
);
