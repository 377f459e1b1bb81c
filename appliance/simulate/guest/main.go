// Guest acts as the discovery agent on an emulated machine that has booted an image. It reads the
// config like the agent's unit, registers, reports the inventory, executes steps, and writes the
// image to the disk for the installation. After a boot from that disk, it acts as the installed
// node. It exits with status 0 if the machine must be restarted. It reads the appliance's address
// only from the config.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"landfall/appliance/simulate"
	"landfall/ignition"
)

// stay is the exit status of a machine that must not be restarted.
const stay = 3

func main() {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	config := flag.String("config", "/config.ign", "path of the Ignition config")
	medium := flag.String("medium", "/dev/sr0", "device from which the machine booted")
	installed := flag.Bool("installed", false, "the medium is the disk with the installed system")
	speed := flag.Float64("speed", 1, "factor by which delays are divided")
	flag.Parse()
	restart, err := run(context.Background(), log, *config, *medium, *installed, *speed)
	switch {
	case err != nil:
		log.Error("The simulated host stopped with an error.", "error", err)
		os.Exit(1)
	case !restart:
		os.Exit(stay)
	}
}

func run(ctx context.Context, log *slog.Logger, config, medium string, installed bool,
	speed float64) (restart bool, err error) {
	raw, err := os.ReadFile(config)
	if err != nil {
		return false, fmt.Errorf("read the config: %w", err)
	}
	found, err := ignition.ReadDiscovery(raw)
	if err != nil {
		return false, err
	}
	inventory, err := readInventory(os.DirFS("/"))
	if err != nil {
		return false, err
	}
	log.Info("Config read.", "appliance", found.ServiceURL, "infra_env", found.InfraEnvID, "id", inventory.id,
		"from_disk", installed)
	guest := &simulate.Guest{
		ID: inventory.id, Config: found, Inventory: inventory.Inventory, Speed: speed, Logger: log,
		WriteImage: func(_ context.Context, path string) error { return copyImage(medium, path) },
	}
	return guest.Run(ctx, installed)
}

// copyImage writes the booted image to a disk. The disk can then be booted like a CD.
func copyImage(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	// The pieces are larger than usual, because each piece is a request to an emulated drive.
	if _, err := io.CopyBuffer(struct{ io.Writer }{target}, struct{ io.Reader }{source},
		make([]byte, 1<<20)); err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return target.Sync()
}
