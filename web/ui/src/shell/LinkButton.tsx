import { Button, type ButtonProps } from '@patternfly/react-core';
import type { AnchorHTMLAttributes } from 'react';
import { Link } from 'react-router-dom-v5-compat';

const Target = ({ href, ...props }: AnchorHTMLAttributes<HTMLAnchorElement>) => <Link {...props} to={href ?? ''} />;

/**
 * A link to a page that looks like a button. Its component is the same at each rendering: otherwise
 * React replaces the link, which then loses its focus or a click.
 */
export const LinkButton = ({ to, ...props }: Omit<ButtonProps, 'component' | 'href'> & { to: string }) => (
  <Button {...props} component={Target} href={to} />
);
