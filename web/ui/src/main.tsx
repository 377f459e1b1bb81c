import '@patternfly/react-core/dist/styles/base.css';
import './landfall.css';
import { createRoot } from 'react-dom/client';
import { observeSession } from './access/ending';
import { returnToPlace } from './access/returning';
import { App } from './App';
import { followRevisions } from './live/revision';
import { guardLinks } from './offline/links';
import { provideClipboard } from './shell/clipboard';
import { guardEscape } from './shell/escape';
import { followTheme } from './shell/theme';

followTheme();
guardLinks(window);
provideClipboard(window);
guardEscape(window);
observeSession(window);
followRevisions(window);
returnToPlace(window);

const root = document.getElementById('root');
if (!root) {
  throw new Error('The page has no element with the id "root".');
}
createRoot(root).render(<App />);
