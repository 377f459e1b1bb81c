import { Alert, Bullseye, Content, PageSection, Spinner, Stack, StackItem } from '@patternfly/react-core';
import { useEffect, useState, type DragEvent } from 'react';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { importMirror, readMirror } from './api';
import { readDrop, type Dropped } from './drop';
import { ImportBox } from './ImportBox';
import { ProofPanel } from './ProofPanel';
import { Rules } from './Rules';

const now = () => 10_000;

/** The page of the site's mirror: its rules, whether it holds a release, and what is to be brought. */
const MirrorPage = () => {
  const { answer, error, askAgain } = useAnswer(readMirror, now);
  const [failure, setFailure] = useState('');
  useEffect(() => {
    document.title = 'Mirror · Landfall';
  }, []);
  const take = async (dropped: Dropped | undefined) => {
    if (!dropped) {
      return;
    }
    try {
      await importMirror(dropped.name, dropped.files);
      setFailure('');
    } catch (thrown) {
      setFailure(sentenceOf(thrown));
    }
    askAgain();
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
        void readDrop(event.dataTransfer.items).then(take);
      }}
    >
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">Mirror</Content>
        <Content component="p">
          Where this site pulls images from, and whether everything is there that an installation needs.
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          {failure !== '' && (
            <StackItem>
              <Alert isInline variant="danger" title={failure} />
            </StackItem>
          )}
          {error && (
            <StackItem>
              <Alert isInline variant="danger" title={sentenceOf(error)} />
            </StackItem>
          )}
          {!answer && !error && (
            <Bullseye>
              <Spinner aria-label="Reading the mirror's rules" />
            </Bullseye>
          )}
          <StackItem>
            <ProofPanel />
          </StackItem>
          {answer && (
            <>
              <StackItem>
                <Rules model={answer} />
              </StackItem>
              <StackItem>
                <ImportBox imports={answer.imports} take={take} changed={askAgain} failed={setFailure} />
              </StackItem>
            </>
          )}
        </Stack>
      </PageSection>
    </div>
  );
};

export default MirrorPage;
