! Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
! See LICENSE for license information.
! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
!
! Weight gradient and update of a hidden layer, in Fortran: extern functions of mlp.mlir beside
! this file. A tensor of 8x16 numbers is an array of (16, 8) here, since Fortran's first index
! runs fastest; sizes come in the order of the tensor.
module hidden_layer
  use iso_c_binding
  implicit none
contains

  ! dw = dw + x^T dz, db = db + the sum of the rows of dz; both in place.
  function hidden_weight(x, x_rows, x_columns, dz, dz_rows, dz_columns, dw, dw_rows, dw_columns, &
      db, db_size, stream) bind(C) result(status)
    integer(c_int64_t), value :: x_rows, x_columns, dz_rows, dz_columns, dw_rows, dw_columns, db_size
    real(c_float), intent(in) :: x(x_columns, x_rows), dz(dz_columns, dz_rows)
    real(c_float), intent(inout) :: dw(dw_columns, dw_rows), db(db_size)
    type(c_ptr), value :: stream
    integer(c_int32_t) :: status
    integer(c_int64_t) :: row, k
    status = 0
    if (dw_rows /= x_columns .or. dw_columns /= dz_columns .or. db_size /= dz_columns &
        .or. dz_rows /= x_rows) then
      status = 1
      return
    end if
    do row = 1, x_rows
      do k = 1, x_columns
        dw(:, k) = dw(:, k) + x(k, row) * dz(:, row)
      end do
      db = db + dz(:, row)
    end do
  end function

  ! A step against the gradient; w and b are overwritten.
  function hidden_update(w, w_rows, w_columns, b, b_size, dw, dw_rows, dw_columns, db, db_size, &
      stream) bind(C) result(status)
    integer(c_int64_t), value :: w_rows, w_columns, b_size, dw_rows, dw_columns, db_size
    real(c_float), intent(inout) :: w(w_columns, w_rows), b(b_size)
    real(c_float), intent(in) :: dw(dw_columns, dw_rows), db(db_size)
    type(c_ptr), value :: stream
    integer(c_int32_t) :: status
    real(c_float), parameter :: rate = 0.1
    status = 0
    if (any([w_rows, w_columns, b_size] /= [dw_rows, dw_columns, db_size])) then
      status = 1
      return
    end if
    w = w - rate * dw
    b = b - rate * db
  end function
end module
