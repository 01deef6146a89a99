// Package kit has the checks that tests of every package share. Only tests import it.
package kit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// IsThorough reports whether load tests run at their full size: where nothing may be
// skipped, as in the gate. Otherwise somebody tries the project, and waits.
func IsThorough() bool {
	return os.Getenv("GCHAT_E2E_REQUIRED") == "1" && !testing.Short()
}

// SkipShort skips a test where short tests are asked for, and says why it takes long.
func SkipShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why)
	}
}

// NeedProgram skips the test where a program is missing. With GCHAT_E2E_REQUIRED=1 it
// fails there.
func NeedProgram(t testing.TB, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	Must(t, err == nil || os.Getenv("GCHAT_E2E_REQUIRED") != "1", "%v", err)
	if err != nil {
		t.Skip(err)
	}
}

// StartProcess starts a process that is killed when the test ends.
func StartProcess(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// FreePort is a port of 127.0.0.1 on which nobody listens, for a program that a test
// starts. It is below the ports that systems give to who asks for any: one of those can
// be another test's before the program listens.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			NoError(t, listener.Close())
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// Equal fails the test if a value is not the one it wants. The test goes on.
func Equal[T any](t testing.TB, got, want T) {
	t.Helper()
	Equalf(t, got, want, "it")
}

// Equalf is Equal with a format and arguments that say which value it is.
func Equalf[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	verb := "%+v"
	if reflect.TypeFor[T]().Kind() == reflect.String {
		verb = "%q"
	}
	t.Errorf("%s: got "+verb+", want "+verb, fmt.Sprintf(format, args...), got, want)
}

// Contains fails the test if a text lacks a part. The test goes on.
func Contains(t testing.TB, text, part string) {
	t.Helper()
	Containsf(t, text, part, "it")
}

// Containsf is Contains with a format and arguments that say which text it is.
func Containsf(t testing.TB, text, part, format string, args ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s lacks %q:\n%s", fmt.Sprintf(format, args...), part, text)
	}
}

// True fails the test if something that must hold does not. The test goes on. The format
// and its arguments say what is there instead.
func True(t testing.TB, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// Must is True, but ends the test.
func Must(t testing.TB, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}

// UseTransport makes r the transport of http.DefaultClient until the test ends.
func UseTransport(t testing.TB, r http.RoundTripper) {
	original := http.DefaultTransport
	http.DefaultTransport = r
	t.Cleanup(func() { http.DefaultTransport = original })
}
