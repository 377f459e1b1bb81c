//go:build boot && !libvirt

package boottest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// newEmulator returns a machine emulated by QEMU, for systems without libvirt. The test controls
// QEMU with its own protocol (QMP).
func newEmulator(t *testing.T, m identity) emulator {
	t.Helper()
	_, err := exec.LookPath(qemuProgram)
	require.NoError(t, err, howToInstall)
	q := &qemu{identity: m, dir: t.TempDir()}
	require.NoError(t, os.WriteFile(q.path("variables"), read(t, firmwareVariables), 0o600))
	require.NoError(t, os.WriteFile(q.path("disk"), nil, 0o600))
	require.NoError(t, os.Truncate(q.path("disk"), diskBytes))
	return q
}

// qemu is a machine emulated by QEMU.
type qemu struct {
	identity
	dir string

	mu    sync.Mutex
	image string
	line  *qmp // connection to the running machine, or nil
}

func (q *qemu) path(name string) string { return filepath.Join(q.dir, name) }

func (q *qemu) shared() string { return q.dir }

func (q *qemu) console() string { return q.path("console") }

func (q *qemu) arguments(fromCD bool) []string {
	cd, disk := 2, 1
	if fromCD {
		cd, disk = 1, 2
	}
	medium := ""
	if q.image != "" {
		medium = ",drive=medium"
	}
	args := []string{
		"-M", "q35", "-accel", "tcg", "-cpu", processor, "-m", fmt.Sprint(memoryMiB), "-smp", "1", "-display",
		"none", "-monitor", "none", "-qmp", "stdio", "-no-reboot",
		"-uuid", q.uuid, "-smbios", "type=1,serial=" + q.serial,
		"-chardev", "file,id=console,append=on,path=" + q.console(), "-serial", "chardev:console",
		"-drive", "if=pflash,format=raw,readonly=on,file=" + firmwareCode, "-drive",
		"if=pflash,format=raw,file=" + q.path("variables"),
		"-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=,mac=" + q.mac,
		"-drive", "if=none,id=disk,format=raw,file=" + q.path("disk"), "-device",
		fmt.Sprintf("virtio-blk-pci,drive=disk,bootindex=%d", disk),
		"-device", "virtio-scsi-pci", "-device", fmt.Sprintf("scsi-cd,id=cd,bootindex=%d%s", cd, medium),
	}
	if q.image != "" {
		args = append(args, "-drive", "if=none,id=medium,media=cdrom,readonly=on,format=raw,file="+q.image)
	}
	return args
}

func (q *qemu) start(fromCD bool) (<-chan ending, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	program := exec.Command(qemuProgram, q.arguments(fromCD)...)
	program.Stderr = os.Stderr
	in, err := program.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := program.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := program.Start(); err != nil {
		return nil, err
	}
	line := &qmp{program: program, in: in, replies: make(chan reply, 1)}
	ended := make(chan ending, 1)
	go func() {
		how := line.listen(out)
		if err := program.Wait(); err != nil && how == restarted {
			how = switchedOff // QEMU failed in the meantime
		}
		q.mu.Lock()
		q.line = nil
		q.mu.Unlock()
		ended <- how
	}()
	q.line = line
	_, err = line.execute("qmp_capabilities", nil)
	return ended, err
}

func (q *qemu) stop() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.line == nil {
		return nil
	}
	if err := q.line.program.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (q *qemu) insert(image string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.image = image
	if q.line == nil {
		return nil
	}
	command, arguments := "eject", map[string]any{"id": "cd", "force": true}
	if image != "" {
		command = "blockdev-change-medium"
		arguments["filename"], arguments["format"], arguments["read-only-mode"] = image, "raw", "read-only"
	}
	if _, err := q.line.execute(command, arguments); err != nil && !errors.Is(err, errEnded) {
		return err
	}
	return nil // the medium is inserted at the next power-on
}

func (q *qemu) inserted() (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.line == nil {
		return q.image, nil
	}
	answer, err := q.line.execute("query-block", nil)
	if errors.Is(err, errEnded) {
		return q.image, nil
	}
	if err != nil {
		return "", err
	}
	var drives []struct {
		Device   string `json:"qdev"`
		Inserted *struct{ File string }
	}
	if err := json.Unmarshal(answer, &drives); err != nil {
		return "", err
	}
	for _, d := range drives {
		if d.Device == "cd" && d.Inserted != nil {
			return d.Inserted.File, nil
		}
	}
	return "", nil
}
