import { useLayoutEffect, useRef, useState, type Ref, type RefObject } from 'react';
import {
  Button,
  Dropdown,
  DropdownItem,
  DropdownList,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MenuToggle,
  type MenuToggleElement,
  Nav,
  NavItem,
  NavList,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from '@patternfly/react-core';
import MoonIcon from '@patternfly/react-icons/dist/esm/icons/moon-icon';
import SunIcon from '@patternfly/react-icons/dist/esm/icons/sun-icon';
import { Link, useLocation, useNavigate, type LinkProps } from 'react-router-dom-v5-compat';
import { useIsLimited } from '../access/AccessProvider';
import { UserMenu } from '../access/UserMenu';
import { shareOf } from '../osimages/describe';
import { useUploadViews } from '../osimages/UploadsProvider';
import { Mark } from './Mark';
import { StatusButton } from './StatusButton';
import { chooseTheme, useTheme } from './theme';

const Home = (props: Omit<LinkProps, 'to'>) => <Link {...props} to="/" />;

const pages: { path: string; name: string; isOfSite?: boolean }[] = [
  { path: '/', name: 'Overview', isOfSite: true },
  { path: '/assisted-installer/clusters', name: 'Clusters' },
  { path: '/hosted', name: 'Hosted', isOfSite: true },
  { path: '/hosts', name: 'Hosts' },
  { path: '/servers', name: 'Servers', isOfSite: true },
  { path: '/os-images', name: 'OS images' },
  { path: '/networks', name: 'Networks' },
  { path: '/mirror', name: 'Mirror' },
  { path: '/registry', name: 'Registry', isOfSite: true },
  { path: '/site-services', name: 'Site services', isOfSite: true },
  { path: '/doctor', name: 'Doctor', isOfSite: true },
  { path: '/ams', name: 'OCM', isOfSite: true },
  { path: '/settings', name: 'Settings', isOfSite: true },
  { path: '/reference', name: 'API' },
  { path: '/docs', name: 'Docs' },
];

/**
 * The links to the pages, in one line: those that do not fit are in a menu beside it. The link to
 * the OS images shows the progress of uploads.
 */
const Pages = () => {
  const { pathname } = useLocation();
  const isLimited = useIsLimited();
  const share = shareOf(useUploadViews());
  const isActive = (path: string) =>
    path === '/' ? pathname === path || pathname === '/setup' : pathname.startsWith(path);
  const nameOf = ({ path, name }: { path: string; name: string }) =>
    path === '/os-images' && share !== undefined ? `${name} (uploading, ${String(share)} %)` : name;
  const shown = pages
    .filter(({ isOfSite }) => !isOfSite || !isLimited)
    .map((page) => ({ path: page.path, name: nameOf(page), isActive: isActive(page.path) }));
  const line = useRef<HTMLDivElement>(null);
  const fitting = useFitting(line, shown.length);
  const rest = shown.slice(fitting);
  return (
    <>
      <div className="landfall-pages">
        <div ref={line} className="landfall-pages-line">
          <Nav variant="horizontal" aria-label="Pages">
            <NavList>
              {shown.map((page, place) => (
                <NavItem
                  key={page.path}
                  isActive={page.isActive}
                  className={place < fitting ? undefined : 'landfall-page-hidden'}
                >
                  <Link to={page.path}>{page.name}</Link>
                </NavItem>
              ))}
            </NavList>
          </Nav>
        </div>
        {rest.length > 0 && (
          <PagesMenu pages={rest} name={rest.find((page) => page.isActive)?.name ?? 'More'} isPlain />
        )}
      </div>
      <div className="landfall-pages-menu">
        <PagesMenu pages={shown} name={shown.find((page) => page.isActive)?.name ?? 'Pages'} />
      </div>
    </>
  );
};

/**
 * The number of the links that are in the first line. The others wrap to lines below it. If all of
 * them fit without the menu, they are shown without it.
 */
const useFitting = (line: RefObject<HTMLDivElement>, all: number): number => {
  const [fitting, setFitting] = useState(all);
  useLayoutEffect(() => {
    const links = [...(line.current?.querySelectorAll('li') ?? [])];
    const measure = () => {
      const needed = links.reduce((sum, link) => sum + link.getBoundingClientRect().width, 0);
      const hasMenu = line.current?.nextElementSibling !== null;
      if (hasMenu && needed + 1 < (line.current?.parentElement?.clientWidth ?? 0)) {
        setFitting(links.length);
        return;
      }
      const top = links[0]?.offsetTop ?? 0;
      const wrapped = links.findIndex((link) => link.offsetTop > top);
      setFitting(wrapped < 0 ? links.length : wrapped);
    };
    const observer = new ResizeObserver(measure);
    for (const element of [line.current, ...links]) {
      if (element) {
        observer.observe(element);
      }
    }
    measure();
    return () => {
      observer.disconnect();
    };
  }, [line, all]);
  return fitting;
};

type MenuProps = { pages: { path: string; name: string; isActive: boolean }[]; name: string; isPlain?: boolean };

/** Pages as a menu, for those whose links have no room. */
const PagesMenu = ({ pages: shown, name: shownName, isPlain = false }: MenuProps) => {
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  return (
    <Dropdown
      isOpen={isOpen}
      onOpenChange={setOpen}
      isScrollable
      toggle={(ref: Ref<MenuToggleElement>) => (
        <MenuToggle
          ref={ref}
          variant={isPlain ? 'plainText' : 'default'}
          isExpanded={isOpen}
          onClick={() => {
            setOpen(!isOpen);
          }}
        >
          {shownName}
        </MenuToggle>
      )}
    >
      <DropdownList aria-label="Pages">
        {shown.map(({ path, name, isActive }) => (
          <DropdownItem
            key={path}
            isSelected={isActive}
            {...(isActive && { isActive })}
            onClick={() => {
              setOpen(false);
              navigate(path);
            }}
          >
            {name}
          </DropdownItem>
        ))}
      </DropdownList>
    </Dropdown>
  );
};

/**
 * The masthead: the product's name as home link, the pages, the theme and the appliance's status.
 */
export const Header = () => {
  const theme = useTheme();
  const other = theme === 'dark' ? 'light' : 'dark';
  return (
    <Masthead className="landfall-masthead" display={{ default: 'inline' }}>
      <MastheadMain>
        <MastheadBrand>
          <MastheadLogo component={Home} className="landfall-logo" aria-label="Landfall: home">
            <Mark />
            <span>Landfall</span>
          </MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isFullHeight>
          <ToolbarContent>
            <ToolbarItem isOverflowContainer>
              <Pages />
            </ToolbarItem>
            <ToolbarGroup align={{ default: 'alignEnd' }}>
              <ToolbarItem>
                <StatusButton />
              </ToolbarItem>
              <ToolbarItem>
                <UserMenu />
              </ToolbarItem>
              <ToolbarItem>
                <Button
                  variant="plain"
                  aria-label={`Switch to the ${other} theme`}
                  icon={theme === 'dark' ? <SunIcon /> : <MoonIcon />}
                  onClick={() => {
                    chooseTheme(other);
                  }}
                />
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
};
