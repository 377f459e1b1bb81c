import { Link } from 'react-router-dom-v5-compat';

/** A link to a document, or to a heading in it, such as `registry#media`. */
export const Help = ({ to, children }: { to: string; children: string }) => <Link to={`/docs/${to}`}>{children}</Link>;
