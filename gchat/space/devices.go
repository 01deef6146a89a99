package space

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"gchat-hooks/gchat/space/webpush"
)

const (
	devicesFile = "devices.json"
	// maxDevices is how many devices may be called. A browser whose data was deleted
	// leaves one, until its push service says so.
	maxDevices         = 20
	maxDeviceNameRunes = 40
	devicesLockTimeout = 2 * time.Second
)

// Device is a browser that is called when something waits for the person.
type Device struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	AddedAt     time.Time `json:"added_at"`
	CalledAt    time.Time `json:"called_at,omitzero"` // its push service took the call
	LastFailure string    `json:"last_failure,omitempty"`
	FailedAt    time.Time `json:"failed_at,omitzero"`
	// Refusal is why its browser's new subscription was refused. Until the browser has a
	// good one, the device is not called. It is "" for a device that is called.
	Refusal      string               `json:"refusal,omitempty"`
	Origin       string               `json:"origin,omitempty"` // of the page that it subscribed on
	Subscription webpush.Subscription `json:"subscription"`
}

var (
	errTooManyDevices = errors.New("the page can notify no more devices: remove one first")
	errUnknownDevice  = errors.New("there is no such device")
)

// Devices returns the devices that a space calls, the oldest first.
func Devices(dataDir string) ([]Device, error) {
	b, err := os.ReadFile(filepath.Join(dataDir, devicesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var stored struct {
		Devices []Device `json:"devices"`
	}
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(dataDir, devicesFile), err)
	}
	return stored.Devices, nil
}

// RemoveDevice removes the device with that name. A space that runs calls it no more.
func RemoveDevice(dataDir, name string) error {
	isNamed := func(d Device) bool { return strings.EqualFold(d.Name, strings.TrimSpace(name)) }
	return changeDevices(dataDir, func(devices []Device) ([]Device, error) {
		if !slices.ContainsFunc(devices, isNamed) {
			return nil, errUnknownDevice
		}
		return slices.DeleteFunc(devices, isNamed), nil
	})
}

// changeDevices changes the file of the devices. Another process may change it, too.
func changeDevices(dataDir string, change func([]Device) ([]Device, error)) error {
	lock := flock.New(filepath.Join(dataDir, devicesFile+".lock"), flock.SetPermissions(0o600))
	for deadline := time.Now().Add(devicesLockTimeout); ; time.Sleep(10 * time.Millisecond) {
		isLocked, err := lock.TryLock()
		if err != nil {
			return err
		}
		if isLocked {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("another process changes the devices; try again")
		}
	}
	defer lock.Close()
	devices, err := Devices(dataDir)
	if err != nil {
		return err
	}
	devices, err = change(devices)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(map[string]any{"devices": devices}, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dataDir, devicesFile), append(b, '\n'), 0o600)
}

// addDevice adds a device, or renews the one that has the same endpoint.
func addDevice(dataDir string, added Device) (stored Device, err error) {
	err = changeDevices(dataDir, func(devices []Device) ([]Device, error) {
		for i := range devices {
			if devices[i].Subscription.Endpoint == added.Subscription.Endpoint {
				devices[i].Subscription, devices[i].Origin = added.Subscription, added.Origin
				devices[i].Refusal = ""
				stored = devices[i]
				return devices, nil
			}
		}
		if len(devices) >= maxDevices {
			return nil, errTooManyDevices
		}
		stored = added
		stored.Name = unusedName(devices, added.Name)
		return append(devices, stored), nil
	})
	return stored, err
}

// changeDevice changes one device, and fails with errUnknownDevice if it was removed.
func changeDevice(dataDir, id string, change func(*Device)) error {
	return changeDevices(dataDir, func(devices []Device) ([]Device, error) {
		for i := range devices {
			if devices[i].ID == id {
				change(&devices[i])
				return devices, nil
			}
		}
		return nil, errUnknownDevice
	})
}

func removeDeviceWithID(dataDir, id string) error {
	return changeDevices(dataDir, func(devices []Device) ([]Device, error) {
		return slices.DeleteFunc(devices, func(d Device) bool { return d.ID == id }), nil
	})
}

// removeGoneDevice removes a device whose subscription its push service does not know. It
// stays if its browser replaced that subscription meanwhile, or tried to.
func removeGoneDevice(dataDir string, gone *Device) (wasReplaced bool, err error) {
	err = changeDevices(dataDir, func(devices []Device) ([]Device, error) {
		return slices.DeleteFunc(devices, func(d Device) bool {
			if d.ID != gone.ID {
				return false
			}
			wasReplaced = d.Subscription != gone.Subscription || d.Refusal != ""
			return !wasReplaced
		}), nil
	})
	return wasReplaced, err
}

// findDevice returns a device, and fails with errUnknownDevice if it was removed. Any
// other error says nothing about the device.
func findDevice(dataDir, id string) (*Device, error) {
	devices, err := Devices(dataDir)
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		if d.ID == id {
			return &d, nil
		}
	}
	return nil, errUnknownDevice
}

// unusedName returns the name, with a number if another device has it.
func unusedName(devices []Device, name string) string {
	candidate := name
	for n := 2; ; n++ {
		isUsed := func(d Device) bool { return strings.EqualFold(d.Name, candidate) }
		if !slices.ContainsFunc(devices, isUsed) {
			return candidate
		}
		candidate = fmt.Sprintf("%s %d", name, n)
	}
}

// deviceName returns a name that a person may give a device, without characters that a
// terminal or a page would not show. If nothing is left, the name says which browser it
// is.
func deviceName(given, userAgent string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(given, ""))
	name := []rune(strings.Join(strings.Fields(printable), " "))
	if len(name) > maxDeviceNameRunes {
		name = name[:maxDeviceNameRunes]
	}
	return cmp.Or(strings.TrimSpace(string(name)), describeBrowser(userAgent))
}

// describeBrowser returns what a User-Agent header says, such as "Chrome on Android".
// Browsers name others, too, so the order counts.
func describeBrowser(userAgent string) string {
	pick := func(words [][2]string, otherwise string) string {
		for _, word := range words {
			if strings.Contains(userAgent, word[0]) {
				return word[1]
			}
		}
		return otherwise
	}
	browser := pick([][2]string{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser", "Samsung Internet"},
		{"Firefox/", "Firefox"}, {"FxiOS", "Firefox"}, {"CriOS", "Chrome"},
		{"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"AppleWebKit", "Safari"},
	}, "A browser")
	system := pick([][2]string{
		{"iPhone", " on iPhone"}, {"iPad", " on iPad"}, {"Android", " on Android"},
		{"Windows", " on Windows"}, {"CrOS", " on ChromeOS"}, {"Mac OS", " on Mac"},
		{"Linux", " on Linux"},
	}, "")
	return browser + system
}
