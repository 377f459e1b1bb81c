import { Button, Card, CardBody, CardTitle, Content, List, ListItem } from '@patternfly/react-core';
import { useRef } from 'react';
import { sentenceOf } from '../shell/request';
import { removeImport, type MirrorModel } from './api';
import type { Dropped } from './drop';

type Props = {
  imports: MirrorModel['imports'];
  take: (dropped: Dropped) => Promise<void>;
  changed: () => void;
  failed: (sentence: string) => void;
};

/** What was imported, and how to import more. */
export const ImportBox = ({ imports, take, changed, failed }: Props) => {
  const input = useRef<HTMLInputElement>(null);
  const remove = async (name: string) => {
    try {
      await removeImport(name);
    } catch (thrown) {
      failed(sentenceOf(thrown));
    }
    changed();
  };
  return (
    <Card>
      <CardTitle>Imports</CardTitle>
      <CardBody>
        <Content component="p">
          Drop a folder of oc-mirror, an archive of one, a registries.conf, mirror sets or CA certificates anywhere on
          this page. Imports go over what the configuration says.
        </Content>
        <List isPlain aria-label="Imports">
          {imports.map(({ name, imported, files, ignored }) => (
            <ListItem key={name}>
              {name}, {new Date(imported).toLocaleString()}: {files.length} files
              {ignored.length > 0 && `, ${String(ignored.length)} left out`}{' '}
              <Button variant="link" isInline onClick={() => void remove(name)}>
                Remove
              </Button>
            </ListItem>
          ))}
        </List>
        <input
          ref={input}
          type="file"
          hidden
          aria-label="File to import"
          onChange={(event) => {
            const file = event.target.files?.[0];
            if (file) {
              void take({ name: file.name, files: [{ path: file.name, file }] });
            }
            event.target.value = '';
          }}
        />
        <Button variant="secondary" onClick={() => input.current?.click()}>
          Import a file
        </Button>
      </CardBody>
    </Card>
  );
};
