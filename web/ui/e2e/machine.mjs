// A machine for the tests: a live ISO that boots, with the layout of CoreOS's, and an emulator that
// boots it from an address, as a server does from virtual media. .ci/install-emulator installs
// their dependencies.

import { execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const kernel = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'landfall/boot/vmlinuz');
const isolinux = '/usr/lib/ISOLINUX';
const syslinux = '/usr/lib/syslinux/modules/bios';
const busybox = '/bin/busybox';

/**
 * The volume id of the live ISO. Like CoreOS's volume ids since OpenShift 4.19, it contains no
 * OpenShift version.
 */
export const volumeId = 'rhcos-9.6.20250523-0';

/**
 * The live system writes the digest of its config to the serial line and powers the machine off.
 */
const init = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
exec > /dev/ttyS0 2>&1
echo "CONFIG $(sha256sum < /config.ign | cut -d' ' -f1)"
poweroff -f
`;

// The boot loader also loads the root file system, so that a boot reads the whole image.
const initrds = ['initrd.img', 'rootfs.img'].map((name) => `/images/pxeboot/${name}`).concat('/images/ignition.img');
// Without no_timer_check, the kernel of a slow emulator can lose the serial line's interrupts.
const kernelArguments =
  `coreos.liveiso=${volumeId} ignition.firstboot ignition.platform.id=metal ` +
  `console=ttyS0,115200n8 quiet panic=-1 no_timer_check`;
const areaSize = 1139;
const areaStart = `serial 0 115200
default linux
prompt 0
timeout 1
label linux
  kernel /images/pxeboot/vmlinuz
  append initrd=${initrds.join(',')} `;
const area = `${kernelArguments}\n`.padEnd(areaSize, '#');

/** Throws an error if a program or a file for emulated machines is missing. */
export const requireEmulator = () => {
  const programs = ['qemu-system-x86_64', 'xorriso'].filter(
    (name) => !(process.env.PATH ?? '').split(':').some((directory) => existsSync(join(directory, name))),
  );
  const files = [kernel, busybox, join(isolinux, 'isolinux.bin')].filter((path) => !existsSync(path));
  const missing = [...programs, ...files];
  if (missing.length > 0) {
    throw new Error(`The emulator lacks ${missing.join(', ')}. Run .ci/install-emulator.`);
  }
};

/**
 * Creates the live ISO in this directory and returns its path; its root file system has this number
 * of random bytes.
 */
export const makeLiveISO = async (directory, rootfsBytes = 24 * 1024 ** 2) => {
  const tree = join(directory, 'tree');
  const put = async (path, content) => {
    await mkdir(dirname(join(tree, path)), { recursive: true });
    await writeFile(join(tree, path), content);
  };
  await put('images/pxeboot/vmlinuz', await readFile(kernel));
  await put(
    'images/pxeboot/initrd.img',
    await archive(join(directory, 'initrd'), {
      'bin/busybox': await readFile(busybox),
      init,
      'dev/.keep': '',
    }),
  );
  await put(
    'images/pxeboot/rootfs.img',
    await archive(join(directory, 'rootfs'), { 'root.squashfs': randomBytes(rootfsBytes) }),
  );
  await put('images/ignition.img', Buffer.alloc(256 * 1024));
  await put('coreos/igninfo.json', JSON.stringify({ file: 'images/ignition.img' }));
  await put(
    'coreos/kargs.json',
    JSON.stringify({
      default: kernelArguments,
      files: [{ path: 'isolinux/isolinux.cfg', offset: areaStart.length, end: '\n', pad: '#' }],
      size: areaSize,
    }),
  );
  await put('isolinux/isolinux.cfg', `${areaStart}${area}# COREOS_KARG_EMBED_AREA\n`);
  await copyFile(join(isolinux, 'isolinux.bin'), join(tree, 'isolinux/isolinux.bin'));
  await chmod(join(tree, 'isolinux/isolinux.bin'), 0o644);
  await copyFile(join(syslinux, 'ldlinux.c32'), join(tree, 'isolinux/ldlinux.c32'));
  const iso = join(directory, 'rhcos-live.iso');
  await run('xorriso', [
    '-as',
    'mkisofs',
    '-quiet',
    '-o',
    iso,
    '-V',
    volumeId,
    '-iso-level',
    '1',
    '-r',
    '-J',
    '-joliet-long',
    '-isohybrid-mbr',
    join(isolinux, 'isohdpfx.bin'),
    '-c',
    'isolinux/boot.cat',
    '-b',
    'isolinux/isolinux.bin',
    '-no-emul-boot',
    '-boot-load-size',
    '4',
    '-boot-info-table',
    tree,
  ]);
  return iso;
};

/** Packs files into a cpio archive that the kernel can unpack. */
const archive = async (directory, files) => {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), content);
    await chmod(join(directory, path), 0o755);
  }
  const { stdout } = await run('sh', ['-c', `find . | ${busybox} cpio -o -H newc`], {
    cwd: directory,
    encoding: 'buffer',
    maxBuffer: 1024 ** 3,
  });
  return stdout;
};

/**
 * Boots a machine whose CD is at this address. It reads ranges with a limit in bytes a second.
 * `ended` resolves to its output on the serial line.
 */
export const bootFrom = (url, bytesPerSecond) => {
  const machine = spawn(
    'qemu-system-x86_64',
    [
      '-machine',
      'q35,accel=tcg',
      '-cpu',
      'max',
      '-m',
      '768',
      '-nographic',
      '-nodefaults',
      '-no-reboot',
      '-net',
      'none',
      '-serial',
      'stdio',
      '-boot',
      'd',
      '-drive',
      `file=${url},format=raw,media=cdrom,readonly=on,throttling.bps-read=${String(bytesPerSecond)}`,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let written = '';
  for (const stream of [machine.stdout, machine.stderr]) {
    stream.on('data', (part) => {
      written += String(part);
    });
  }
  machine.on('error', (error) => {
    written += error.message;
  });
  return {
    ended: once(machine, 'close').then(() => written),
    output: () => written,
    powerOff: () => machine.kill('SIGKILL'),
  };
};

export const sha256 = (content) => createHash('sha256').update(content).digest('hex');
