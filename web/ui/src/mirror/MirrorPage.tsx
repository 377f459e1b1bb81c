import { Alert, FormSelect, FormSelectOption, Spinner, StackItem } from '@patternfly/react-core';
import { useCallback, useState, type DragEvent } from 'react';
import { useIsLimited, useMay } from '../access/AccessProvider';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAct } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { useAnswer } from '../shell/useAnswer';
import { importMirror, listPlaces, readMirror, type Place } from './api';
import { readDrop, type Dropped } from './drop';
import { ImportBox } from './ImportBox';
import { ProofPanel } from './ProofPanel';
import { Releases } from './Releases';
import { Rules } from './Rules';

const now = () => 10_000;
const forAll: Place[] = [{ level: {}, label: 'all clusters' }];

/** The page of the site's mirror: its rules, and the images that it lacks for a release. */
const MirrorPage = () => {
  const places = useAnswer(listPlaces, now).answer ?? forAll;
  const [chosen, setChosen] = useState('');
  const key = ({ level }: Place) => [level.cluster_id, level.infra_env_id].join('/');
  const level = places.find((place) => key(place) === chosen)?.level;
  const { cluster_id: cluster, infra_env_id: infraEnv } = level ?? {};
  const read = useCallback(
    (signal: AbortSignal) =>
      readMirror({ ...(cluster && { cluster_id: cluster }), ...(infraEnv && { infra_env_id: infraEnv }) }, signal),
    [cluster, infraEnv],
  );
  const { answer, error, refetch } = useAnswer(read, now);
  const mayImport = useMay('admin');
  const isLimited = useIsLimited();
  const { act, failure, setFailure } = useAct(refetch);
  const { isRunning, run } = useAction();
  const [name, setName] = useState('');
  const [isRefused, setRefused] = useState(false);
  const take = (read: () => Promise<Dropped | undefined>) => {
    if (!mayImport) {
      return;
    }
    setRefused(isRunning);
    void run(async () => {
      setName('');
      await act(async () => {
        const dropped = await read();
        if (dropped) {
          setName(dropped.name);
          await importMirror(level ?? {}, dropped.name, dropped.files);
        }
      });
    });
  };
  return (
    <div
      className="landfall-drop"
      data-testid="mirror"
      onDragOver={(event) => {
        event.preventDefault();
      }}
      onDrop={(event: DragEvent) => {
        event.preventDefault();
        take(() => readDrop(event.dataTransfer.items));
      }}
    >
      <PageFrame
        title="Mirror"
        about={
          <>
            The sources of images at this site, and whether the mirror has all images for an installation.{' '}
            <Help to="mirror">About the mirror</Help>
          </>
        }
        failure={failure}
        error={error}
        hasAnswer={answer !== undefined}
        waiting="Reading the mirror's rules"
      >
        {isRunning && (
          <StackItem>
            <Alert
              isInline
              isLiveRegion
              variant="info"
              customIcon={<Spinner size="md" aria-hidden />}
              title={name === '' ? 'Reading the files to import.' : `Importing ${name}.`}
            />
          </StackItem>
        )}
        {isRefused && (
          <StackItem>
            <Alert
              isInline
              isLiveRegion
              variant="warning"
              title="The last files were not imported, because an import was running. Choose them again after its end."
            />
          </StackItem>
        )}
        <StackItem>
          <FormSelect
            aria-label="Rules for"
            value={chosen}
            style={{ width: 'auto' }}
            onChange={(_event, value) => {
              setChosen(value);
            }}
          >
            {places.map((place) => (
              <FormSelectOption
                key={key(place)}
                value={place === places[0] ? '' : key(place)}
                label={`Rules for ${place.label}`}
              />
            ))}
          </FormSelect>
        </StackItem>
        <StackItem>
          {!isLimited && <ProofPanel key={cluster ?? ''} cluster={cluster} />}
        </StackItem>
        {answer && (
          <>
            <StackItem>
              <Rules model={answer} />
            </StackItem>
            <StackItem>
              <ImportBox
                imports={answer.imports}
                places={places}
                isImporting={isRunning}
                take={(file) => {
                  take(() => Promise.resolve(file));
                }}
                changed={refetch}
                failed={setFailure}
              />
            </StackItem>
            <StackItem>
              <Releases act={act} />
            </StackItem>
          </>
        )}
      </PageFrame>
    </div>
  );
};

export default MirrorPage;
