// RUN: pipesched-opt %s -verify-diagnostics -split-input-file

exec.program @phase_letter {
  worker 0 {
    // expected-error@+1 {{unknown phase 'K' in '0K0'; wanted one of F, B, I, W, R, D, U, O, G, d, u, S, T, X, Y, Z, E, A, C, V}}
    %f0 = compute 0K0
  }
}

// -----

exec.program @second_of_pair {
  worker 0 {
    // expected-error@+1 {{expected a phase letter right behind stage 0, as in 0F0}}
    %f0 = compute 0F0+0
  }
}

// -----

exec.program @no_destination {
  worker 0 {
    %f0 = compute 0F0
    // expected-error@+1 {{expected 'to'}}
    %s0 = send 0F0 after %f0
  }
}

// -----

exec.program @no_source {
  worker 0 {
    // expected-error@+1 {{expected 'from'}}
    %act0 = recv 0F0 to 1
  }
}

// -----

exec.program @phase_of_message {
  worker 0 {
    // expected-error@+1 {{unknown phase 'K' in '0K0'}}
    %act0 = recv 0K0 from 1
  }
}
