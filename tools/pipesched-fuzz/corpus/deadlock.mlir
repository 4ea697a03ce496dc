exec.program @cyclic {
  worker 0 {
    %g0 = recv 1F1 from 1
    %f0 = compute 0F0 after %g0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
    %a0 = recv 0F0 from 0
    %f1 = compute 1F1 after %a0
    %s1 = send 1F1 to 0 after %f1
  }
}
