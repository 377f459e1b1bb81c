import { useState } from 'react';

export type Draft = {
  text: string;
  isChanged: boolean;
  edit: (text: string) => void;
  /** Forgets the edit, once this text is saved. What was typed while it was being saved stays. */
  forget: () => void;
};

/** The text of a field: the saved one until it is edited. A new response keeps an edit. */
export const useDraft = (saved: string): Draft => {
  const [edited, setEdited] = useState<string>();
  return {
    text: edited ?? saved,
    isChanged: edited !== undefined && edited.trim() !== saved.trim(),
    edit: setEdited,
    forget: () => {
      setEdited((last) => (last === edited ? undefined : last));
    },
  };
};
